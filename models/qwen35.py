"""Qwen3.5, dense: Qwen3-Next's layers.  Source: https://qwen.ai/blog?id=qwen3.5."""

from edgeinfer.models import qwen3next
from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    return qwen3next.layers(b, interleaved=False)
