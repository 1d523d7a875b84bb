"""Granite 3 MoE: Granite's names; gate and up of all experts are in one tensor, and so are those of the shared one."""

from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer
from edgeinfer.models.huggingface import granite

ARCH = "granitemoe"
CLASSES = ("GraniteMoeForCausalLM", "GraniteMoeSharedForCausalLM")


def write(w: Writer) -> None:
    granite.scales(w)
    usual.begin(w)
    experts = expert_keys(w)
    for _ in w.layers(usual.layers(w)):
        usual.turn(w)
        w.copy(usual.LAYER)
        feed_forward(w, experts)


def expert_keys(w: Writer) -> int:
    """How many experts there are, which may be none."""
    count = w.config.integer("num_local_experts", default=0)
    if count:
        usual.expert_keys(w)
    if w.config.integer("shared_intermediate_size", default=0):
        w.key("expert_shared_feed_forward_length", w.config.integer("shared_intermediate_size"))
    return count


def feed_forward(w: Writer, experts: int) -> None:
    """The experts and the one that is shared, which is an ordinary feed-forward where there are no others."""
    if experts:
        both = w.take("block_sparse_moe.input_linear.weight")
        w.put("ffn_gate_exps.weight", both[:, : both.shape[1] // 2])
        w.put("ffn_up_exps.weight", both[:, both.shape[1] // 2 :])
        w.put("ffn_down_exps.weight", w.take("block_sparse_moe.output_linear.weight"))
        w.put("ffn_gate_inp.weight", w.take("block_sparse_moe.router.layer.weight"))
    if w.has("shared_mlp.input_linear.weight"):
        ending = "_shexp" if experts else ""
        both = w.take("shared_mlp.input_linear.weight")
        w.put(f"ffn_gate{ending}.weight", both[: len(both) // 2])
        w.put(f"ffn_up{ending}.weight", both[len(both) // 2 :])
        w.put(f"ffn_down{ending}.weight", w.take("shared_mlp.output_linear.weight"))
