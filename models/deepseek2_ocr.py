"""DeepSeek-OCR and OCR 2, their text part: DeepSeek MoE's layers with RoPE over the two halves of a head.

Source: https://arxiv.org/abs/2510.18234.
"""

from edgeinfer.models import deepseek
from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    return deepseek.decode(b, "halves")
