"""BERT, RoBERTa and XLM-R, DistilBERT: an encoder whose norms follow each sum; sentence embeddings and cross-encoders.

Sources: https://arxiv.org/abs/1810.04805, https://arxiv.org/abs/1907.11692.  GGUF holds RoBERTa's positions without
the two it leaves unused.
"""

from edgeinfer.plan import Builder, Value
from edgeinfer.verbs.attention import BOTH_WAYS


def forward(b: Builder) -> Value:
    c = b.config
    x = b.typed_embedding(positions=True)
    for layer in b.layers():
        h = b.attend(*b.qkv(x), layer, scores=BOTH_WAYS)
        x = b.layer_norm(b.add(x, b.linear(h, "attn_output", c.dim)), "attn_output_norm")
        x = b.layer_norm(b.add(x, b.plain_mlp(x, "gelu_erf")), "layer_output_norm")
    return x


def rank(b: Builder, rows: Value) -> Value:
    """BERT's pooler, RoBERTa's or DistilBERT's dense layer, where the file has it, and a score of its output."""
    row = b.pool(rows, "cls")
    if b.has("cls"):
        act = b.keys.choice("classifier.activation", "tanh", ("tanh", "relu"))
        row = b.activate(b.linear(row, "cls", row.width), act)
    return b.linear(row, "cls.output", 1)
