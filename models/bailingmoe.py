"""Ling Lite and Ling Plus: DeepSeek MoE's layers.  Source: https://arxiv.org/abs/2503.05139."""

from edgeinfer.models.deepseek import forward as forward
