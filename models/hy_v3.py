"""Hunyuan 3: the layers of Ling 2, with a shared expert.  Source: llama.cpp's hy_v3."""

from edgeinfer.models.bailingmoe2 import forward as forward
