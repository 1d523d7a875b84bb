"""PaddleOCR-VL, its text part: ERNIE 4.5's layers with RoPE over the two halves of a head, and so Qwen2's.

Source: https://arxiv.org/abs/2510.14528.
"""

from edgeinfer.models.qwen2 import forward as forward
