"""GLM 5: DeepSeek V3.2's layers, some of which see the positions picked in an earlier one.

Source: https://arxiv.org/abs/2602.15763.
"""

from edgeinfer.models import deepseek32
from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    return deepseek32.layers(b, "adjacent")
