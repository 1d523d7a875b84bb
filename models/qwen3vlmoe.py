"""Qwen3-VL with experts, its text part: Qwen3-MoE's layers; for text, RoPE's three positions are one.

Source: https://arxiv.org/abs/2511.21631.
"""

from edgeinfer.models.qwen3moe import forward as forward
