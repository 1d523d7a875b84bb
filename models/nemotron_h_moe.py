"""Nemotron 3 Nano: Nemotron-H's layers.  Source: https://arxiv.org/abs/2512.20848."""

from edgeinfer.models.nemotron_h import forward as forward
