"""StarCoder 1: GPT-2 with one head of K and V.  Source: https://arxiv.org/abs/2305.06161."""

from edgeinfer.models.gpt2 import forward as forward
