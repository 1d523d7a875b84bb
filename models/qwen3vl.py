"""Qwen3-VL, its text part: Qwen3's layers; for text, RoPE's three positions are one.

Source: https://arxiv.org/abs/2511.21631.
"""

from edgeinfer.models.qwen3 import forward as forward
