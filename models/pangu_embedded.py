"""Pangu Embedded: Qwen2's layers.  Source: https://arxiv.org/abs/2505.22375."""

from edgeinfer.models.qwen2 import forward as forward
