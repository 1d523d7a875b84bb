"""Granite 3 MoE: Granite with experts, and a shared expert in some.  Source: https://arxiv.org/abs/2405.04324."""

from edgeinfer.models.granite import forward as forward
