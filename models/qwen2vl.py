"""Qwen2-VL, its text part: Qwen2's layers; for text, RoPE's three positions are one.

Source: https://arxiv.org/abs/2409.12191.  The norms have no epsilon, as in llama.cpp.
"""

import dataclasses

from edgeinfer.models import qwen2
from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    b.config = dataclasses.replace(b.config, eps=0.0)
    return qwen2.forward(b)
