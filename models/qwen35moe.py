"""Qwen3.5 with experts: Qwen3.5's layers.  Source: https://qwen.ai/blog?id=qwen3.5."""

from edgeinfer.models.qwen35 import forward as forward
