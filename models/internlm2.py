"""InternLM 2: Llama's layers.  Source: https://arxiv.org/abs/2403.17297."""

from edgeinfer.models.llama import forward as forward
