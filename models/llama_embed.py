"""Llama Embed Nemotron: Llama's layers, and every token sees all others.  Source: https://arxiv.org/abs/2511.07025."""

from edgeinfer.models import eurobert
from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    b.ignore("output")
    return eurobert.encode(b, "adjacent", "output_norm")
