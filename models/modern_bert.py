"""ModernBERT and its kin: norms before each branch, rotary positions, every third layer global, a gated MLP, no biases.

Source: https://arxiv.org/abs/2412.13663.  A local layer sees half the window of the file to each side.
"""

from edgeinfer.errors import FormatError
from edgeinfer.plan import POOLING_TYPES, Builder, Value
from edgeinfer.verbs.attention import BOTH_WAYS

PERIOD = 3  # the first of every three layers is global, unless the file says otherwise
ACTIVATIONS = {"gelu": "gelu_erf", "silu": "silu"}


def forward(b: Builder) -> Value:
    c = b.config
    window = b.keys.integer("attention.sliding_window", 0, least=0)
    local = b.sliding(PERIOD, first=True)
    global_rope, local_rope = b.model_rope("halves"), b.local_rope()
    act = ACTIVATIONS[b.keys.choice("hidden_activation", "gelu", tuple(ACTIVATIONS))]
    x = b.layer_norm(b.embed(), "token_embd_norm")
    for layer in b.layers():
        is_local = window > 0 and local[layer]
        rope = local_rope if is_local else global_rope
        q, k, v = b.qkv(b.layer_norm(x, "attn_norm") if b.has("attn_norm") else x)
        reach = window // 2 + 1 if is_local else 0
        h = b.attend(b.rope(q, rope), b.rope(k, rope), v, layer, reach, scores=BOTH_WAYS)
        x = b.add(x, b.linear(h, "attn_output", c.dim))
        x = b.add(x, b.gated_mlp(b.layer_norm(x, "ffn_norm"), act))
    return b.layer_norm(x, "output_norm")


def rank(b: Builder, rows: Value) -> Value:
    """The prediction head, where the file has it, and a score of its output."""
    kind = POOLING_TYPES.get(b.keys.integer("classifier.pooling_type", 1, least=0))
    if kind not in ("mean", "cls"):
        raise FormatError(f"{b.keys.arch}.classifier.pooling_type is neither mean, 1, nor cls, 2")
    row = b.pool(rows, kind)
    if b.has("cls"):
        row = b.activate(b.linear(row, "cls", row.width), "gelu_erf")
        row = b.layer_norm(row, "cls.norm") if b.has("cls.norm") else row
    return b.linear(row, "cls.output", 1)
