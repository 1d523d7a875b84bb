"""OpenELM: Qwen3's layers over fused QKV, each with heads and widths of its own.

Source: https://arxiv.org/abs/2404.14619.
"""

from edgeinfer.models.qwen3 import forward as forward
