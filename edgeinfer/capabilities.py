"""What a chat template can do, found by rendering probes: templates say it nowhere else."""

from collections.abc import Mapping, Sequence
from typing import Any

from edgeinfer import chat
from edgeinfer.errors import EdgeInferError

USER = {"role": "user", "content": "alpha"}
SYSTEM = {"role": "system", "content": "bravo"}
ANSWER = {"role": "assistant", "content": "charlie"}
TOOL = {
    "type": "function",
    "function": {
        "name": "delta",
        "description": "echo",
        "parameters": {"type": "object", "properties": {"foxtrot": {"type": "string"}}, "required": []},
    },
}
CALL = {
    "role": "assistant",
    "content": "",
    "tool_calls": [{"id": "call12345", "type": "function", "function": {"name": "golf", "arguments": {"hotel": "a"}}}],
}
RESULT = {"role": "tool", "content": "india", "name": "golf", "tool_call_id": "call12345"}


def of(template: str, **variables: Any) -> list[str]:
    """What the template supports, of: chat, system, history, tools, tool results, thinking.

    variables: what it is rendered with beside messages, such as bos_token.  Nothing at all from a template that
    cannot render one message of a user."""

    def shows(word: str, messages: Sequence[Mapping[str, Any]], **more: Any) -> bool:
        try:
            messages = chat.readable(template, messages, add_generation_prompt=True, **variables)
            return word in chat.render(template, messages, add_generation_prompt=True, **variables | more)
        except EdgeInferError:
            return False

    def thinking() -> bool:
        texts = []
        for enabled in (True, False):
            try:
                given = {**variables, "enable_thinking": enabled, "thinking": enabled}
                messages = chat.readable(template, [USER], add_generation_prompt=True, **variables)
                texts.append(chat.render(template, messages, add_generation_prompt=True, **given))
            except EdgeInferError:
                return False
        return texts[0] != texts[1]

    if not shows("alpha", [USER]):
        return []
    found = {
        "chat": True,
        "system": shows("bravo", [SYSTEM, USER]),
        "history": shows("charlie", [USER, ANSWER, USER]),
        "tools": shows("delta", [USER], tools=[TOOL]),
        "tool results": shows("india", [USER, CALL, RESULT], tools=[TOOL]),
        "thinking": thinking(),
    }
    return [name for name, there in found.items() if there]
