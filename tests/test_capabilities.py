"""What templates of different ability are found to support."""

import pytest

from edgeinfer import capabilities

LOOP = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
CASES = {
    "{{ messages[-1].content }}": ["chat", "tool results"],
    LOOP: ["chat", "system", "history", "tool results"],
    "{% if tools %}{{ tools | tojson }}{% endif %}" + LOOP: ["chat", "system", "history", "tools", "tool results"],
    "{% if messages[0].role == 'system' %}{{ raise_exception('no') }}{% endif %}{{ messages[0].content }}": ["chat"],
    "{{ messages[-1].content }}{% if not enable_thinking %}<think></think>{% endif %}": [
        "chat",
        "tool results",
        "thinking",
    ],
    "{% for part in messages[-1].content %}{{ part.text }}{% endfor %}": ["chat", "tool results"],
    "{{ bos_token + messages[-1].content }}": [],
    "{% for": [],
    "": [],
}


@pytest.mark.parametrize("template", CASES)
def test_found_by_rendering(template: str) -> None:
    assert capabilities.of(template) == CASES[template]


def test_variables_are_given_to_the_template() -> None:
    assert capabilities.of("{{ bos_token + messages[-1].content }}", bos_token="<s>") == ["chat", "tool results"]
