"""LFM2 with experts: LFM2's layers.  Source: https://arxiv.org/abs/2511.23404."""

from edgeinfer.models.lfm2 import forward as forward
