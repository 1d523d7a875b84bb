"""Nomic Embed v1 to v2: names of its own.  v2 has experts and another name in GGUF; all experts' matrices of a kind are
in one, that of ffn_down transposed."""

import warnings

from edgeinfer.huggingface import rope, usual
from edgeinfer.huggingface.writer import Writer

ARCH, ARCH_WITH_EXPERTS = "nomic-bert", "nomic-bert-moe"
CLASSES = ("NomicBertModel",)
EPSILON = 1e-12  # where config.json does not say
MODEL = {
    "token_embd": "embeddings.word_embeddings",
    "token_types": "embeddings.token_type_embeddings",
    "token_embd_norm": "emb_ln",
}
LAYER = {
    "attn_qkv": "attn.Wqkv",
    "attn_output": "attn.out_proj",
    "attn_output_norm": "norm1",
    "ffn_down": "mlp.fc2",
    "layer_output_norm": "norm2",
}
GATED = {**LAYER, "ffn_up": "mlp.fc11", "ffn_gate": "mlp.fc12"}
PLAIN = {**LAYER, "ffn_up": "mlp.fc1", "ffn_gate_inp": "mlp.router.layer"}


def write(w: Writer) -> None:
    count = w.config.integer("num_experts", default=0) if w.config.integer("moe_every_n_layers", default=0) else 0
    if count:
        w.arch = ARCH_WITH_EXPERTS
        w.key("moe_every_n_layers", w.config.integer("moe_every_n_layers"))
        w.key("expert_count", count)
        w.key("expert_used_count", w.config.integer("moe_top_k", least=1))
    usual.expect_activation(w, *(("gelu",) if count else ("silu", "swiglu")))
    usual.sizes(w, "layer")
    usual.epsilon(w, "layer", EPSILON)
    context = w.config.integer("n_positions", "max_position_embeddings", default=2048, least=1)
    w.key("context_length", min(context, w.config.integer("max_trained_positions", default=context, least=1)))
    usual.both_ways(w)
    rope.write(w, usual.head_dim(w))
    w.copy(MODEL)
    for _ in w.layers(usual.layers(w), "encoder.layers"):
        w.copy(PLAIN if count else GATED)
        if w.has("mlp.experts.mlp.w1"):
            experts(w, count)


def experts(w: Writer, count: int) -> None:
    shape = count, usual.ff_dim(w), usual.dim(w)
    w.put("ffn_up_exps.weight", w.take("mlp.experts.mlp.w1").reshape(shape))
    w.put("ffn_down_exps.weight", w.take("mlp.experts.mlp.w2").reshape(shape).swapaxes(1, 2))
    if w.has("mlp.experts.bias") and w.numbers("mlp.experts.bias").any():
        warnings.warn(
            f"GGUF's {w.arch} has no bias behind its experts, as this folder has: vectors differ", stacklevel=2
        )
