"""Hunyuan-VL and HunyuanOCR, their text part: Hunyuan's layers; for text, RoPE's positions are one.

Source: https://arxiv.org/abs/2511.19575.
"""

from edgeinfer.models.hunyuan_dense import forward as forward
