"""MiniMax M2: Mixtral's names of the experts, with a bias for the choice."""

from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer
from edgeinfer.models.huggingface import llama

ARCH = "minimax-m2"
CLASSES = ("MiniMaxM2ForCausalLM",)


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    head = usual.head_dim(w)
    usual.begin(w, share=w.config.integer("rotary_dim", default=head) / head)
    count = usual.routed(w)
    w.key("expert_feed_forward_length", usual.ff_dim(w))
    for _ in w.layers(usual.layers(w)):
        w.copy({**usual.LAYER, "ffn_gate_inp": "block_sparse_moe.gate"})
        w.put("exp_probs_b.bias", w.take("block_sparse_moe.e_score_correction_bias"))
        usual.experts(w, count, llama.EXPERTS)
