"""MiniMax-01: Mixtral's names of the experts, and names of its own in layers of lightning attention."""

from edgeinfer.errors import UnsupportedError
from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer
from edgeinfer.models.huggingface import llama

ARCH = "minimax-01"
CLASSES = ("MiniMaxForCausalLM",)
LIGHTNING = {
    "attn_qkv": "self_attn.qkv_proj",
    "attn_norm_2": "self_attn.norm",
    "attn_gate": "self_attn.output_gate",
    "attn_output": "self_attn.out_proj",
}
DECAYS = ("slope_rate", "query_decay", "key_decay", "diagonal_decay")  # which follow from counts of heads and layers
BRANCHES = ("full_attn", "linear_attn", "mlp")


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    head = usual.head_dim(w)
    usual.begin(w, share=w.config.integer("rotary_dim", default=head) / head)
    w.key("residual_scale", scale(w))
    w.key("expert_feed_forward_length", usual.ff_dim(w))
    count = usual.expert_keys(w)
    full = []
    for layer in w.layers(usual.layers(w)):
        w.copy({**usual.NORMS, **usual.ATTENTION})
        w.copy(LIGHTNING)
        w.ignore(*(f"self_attn.{name}" for name in DECAYS))
        full += [] if w.has("self_attn.qkv_proj.weight") else [layer + 1]
        usual.sparse(w, count, "block_sparse_moe", table=llama.EXPERTS)
    period = full[0] if full else usual.layers(w) + 1
    if full != list(range(period, usual.layers(w) + 1, period)):
        raise UnsupportedError(f"{w.config.where}: layers of softmax attention are not as far apart as each other")
    w.key("full_attention_interval", period)


def scale(w: Writer) -> float:
    """Of what goes into a branch, as it is added to what comes out, which GGUF does not scale."""
    inner = {w.config.number(f"{name}_beta_factor", default=1.0) for name in BRANCHES}
    outer = {w.config.number(f"{name}_alpha_factor", default=1.0) for name in BRANCHES}
    if inner != {1.0} or len(outer) > 1:
        raise UnsupportedError(f"{w.config.where}: {w.arch} has one alpha factor for all branches, and no beta factors")
    return outer.pop()
