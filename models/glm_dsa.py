"""GLM 5: DeepSeek V3.2's layers.  Source: https://arxiv.org/abs/2602.15763."""

from edgeinfer.models.deepseek32 import forward as forward
