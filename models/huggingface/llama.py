"""Llama, Mistral 7B, Mixtral and InternLM 3: GGUF's RoPE turns adjacent pairs, so the rows of Q and K are reordered."""

from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer

ARCH = "llama"
CLASSES = (
    *("LlamaForCausalLM", "LlamaModel", "MistralForCausalLM", "MistralModel", "MixtralForCausalLM"),
    "InternLM3ForCausalLM",
)
PREFIX = "model."
EXPERTS = {
    "ffn_gate_exps": "block_sparse_moe.experts.{}.w1",
    "ffn_down_exps": "block_sparse_moe.experts.{}.w2",
    "ffn_up_exps": "block_sparse_moe.experts.{}.w3",
}


def write(w: Writer) -> None:
    count = w.config.integer("num_local_experts", default=0)
    usual.expect_activation(w, "silu")
    usual.lose_window(w)
    usual.begin(w)
    if count:
        w.key("expert_count", count)
        w.key("expert_used_count", w.config.integer("num_experts_per_tok"))
    for _ in w.layers(usual.layers(w)):
        usual.turn(w)
        w.copy({**usual.LAYER, "ffn_gate_inp": "block_sparse_moe.gate"})
        if count:
            usual.experts(w, count, EXPERTS)
