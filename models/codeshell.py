"""CodeShell: StarCoder 2's layers.  Source: https://arxiv.org/abs/2403.15747."""

from edgeinfer.models.starcoder2 import forward as forward
