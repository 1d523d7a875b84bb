"""ChatGLM 3 and GLM-4 9B: Llama's block over fused QKV with bias, partial RoPE, fused gate and up.

Source: https://arxiv.org/abs/2406.12793.
"""

from edgeinfer.models.llama import forward as forward
