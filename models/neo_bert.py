"""NeoBERT: norms before each branch, rotary positions, a gated SiLU feed-forward whose gate is stacked on it.

Source: https://arxiv.org/abs/2502.19587.
"""

from edgeinfer.models import eurobert
from edgeinfer.models.bert import rank as rank
from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    return eurobert.encode(b, "adjacent", "enc.output_norm")
