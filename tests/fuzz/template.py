"""Target: a chat template, and conversations rendered by it."""

from __future__ import annotations

import copy
import pathlib
import random
import re
import zlib
from typing import Any

from edgeinfer import chat
from tests.fuzz import odd, seeds

_TAG = re.compile(r"(\{%.*?%\}|\{\{.*?\}\}|\{#.*?#\})", re.DOTALL)
_WORD = re.compile(r"(\w+|\s+|[^\w\s])")
_SPECIAL = ["<|im_start|>", "<|im_end|>", "<s>", "</s>", "<|", "a"]
_WHOLE = [  # constructs that may stand anywhere
    *(pathlib.Path(__file__).parent / "template_constructs.txt").read_text(encoding="utf-8").splitlines(),
    *("{{ " + deep + " }}" for deep in ("(" * 200 + "1" + ")" * 200, "[" * 60 + "]" * 60, "1+" * 3000 + "1")),
    *("{{ " + long + " }}" for long in ("not " * 500 + "x", "x" + " | trim" * 400)),
    "{% if 1 %}" * 30 + "{% endif %}" * 30,
]
_LOOSE = [
    *"{% for m in messages %}|{% endfor %}|{% if m %}|{% else %}|{% endif %}|{% break %}|{% continue %}".split("|"),
    *"{% macro f(x) %}|{% endmacro %}|{% endgeneration %}|{#|#}|{{|}}|{%|%}|-|'|(".split("|"),
]


def make(rng: random.Random) -> bytes:
    parts = _TAG.split(_template(rng))
    for _ in range(rng.choice([1, 1, 2, 3, 8])):
        at = rng.randint(0, len(parts))
        kind = rng.randrange(12)
        if kind < 6:
            parts.insert(at, rng.choice(_WHOLE))
        elif kind == 6:
            parts.insert(at, rng.choice(_LOOSE))
        elif kind == 7:
            parts.insert(at, odd.text(rng, 2).decode("utf-8", rng.choice(["replace", "surrogateescape"])))
        elif kind == 8:
            del parts[at : at + 1]
        elif kind == 9:
            parts.insert(at, rng.choice(_TAG.split(_template(rng))))
        elif parts:
            words = _WORD.split(parts[at % len(parts)])
            words[rng.randrange(len(words))] = rng.choice([*rng.choice(_WHOLE).split()[:2], "", "x", "messages", "0"])
            parts[at % len(parts)] = "".join(words)
    return "".join(parts).encode("utf-8", "surrogatepass")


def run(case: bytes) -> None:
    rng = random.Random(zlib.crc32(case))
    template = case.decode("utf-8", "surrogatepass")
    conversation: dict[str, Any] = copy.deepcopy(rng.choice(seeds.conversations()))
    if rng.random() < 0.5:
        rng.choice(conversation["messages"])["content"] = odd.text(rng).decode("utf-8", "replace")
    conversation |= {"add_generation_prompt": rng.random() < 0.5, "bos_token": "<s>", "eos_token": "</s>"}
    text = chat.render(template, **conversation)
    segments = chat.render_segments(template, **conversation, special=_SPECIAL)
    changing = "strftime_now" in template or "random" in template or " at 0x" in text
    assert changing or "".join(part for part, _ in segments) == text


def _template(rng: random.Random) -> str:
    """Mostly a small one: to compile those of real models takes ten times as long."""
    return rng.choice(seeds.SMALL_TEMPLATES if rng.random() < 0.85 else seeds.templates())
