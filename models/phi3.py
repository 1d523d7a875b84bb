"""Phi-3 and Phi-4-mini: Qwen2's layers over fused QKV and fused gate and up, LongRoPE in the long-context variants.

Source: https://arxiv.org/abs/2404.14219.  The window in some files is not used, as in llama.cpp.
"""

from edgeinfer.models.qwen2 import forward as forward
