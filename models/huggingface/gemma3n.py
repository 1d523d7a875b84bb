"""Gemma 3n: the projections between the streams are stacked."""

from edgeinfer.huggingface import rope, usual
from edgeinfer.huggingface.writer import Writer
from edgeinfer.models.gemma3n import LAUREL, OTHERS, OWN_KV, PER_LAYER, SPARSE, STREAMS

ARCH = "gemma3n"
CLASSES = ("Gemma3nForCausalLM", "Gemma3nForConditionalGeneration")
MODEL = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "per_layer_token_embd": "model.embed_tokens_per_layer",
    "per_layer_model_proj": "model.per_layer_model_projection",
    "per_layer_proj_norm": "model.per_layer_projection_norm",
}
OWN_INPUT = {  # of the embeddings for each layer
    "inp_gate": "per_layer_input_gate",
    "proj": "per_layer_projection",
    "post_norm": "post_per_layer_input_norm",
}
LAYER = {
    **usual.SANDWICH,
    **usual.ATTENTION,
    **usual.MLP,
    "altup_correct_coef": "altup.correction_coefs",
    "altup_predict_coef": "altup.prediction_coefs",
    "altup_router": "altup.modality_router",
    "altup_router_norm": "altup.router_norm",
    "laurel_l": "laurel.linear_left",
    "laurel_r": "laurel.linear_right",
    "laurel_post_norm": "laurel.post_laurel_norm",
    **OWN_INPUT,
}
PERIOD = 5
SPARSITY = 0.95


def write(w: Writer) -> None:
    layers = usual.layers(w)
    check(w, layers)
    w.config.values["intermediate_size"] = w.config.numbers("intermediate_size", count=layers)[0]
    usual.sizes(w)
    rope.write(w, usual.head_dim(w))
    w.key("rope.freq_base_swa", rope.local_base(w.config))
    w.key("attention.sliding_window", w.config.integer("sliding_window"))
    w.key("attention.sliding_window_pattern", usual.windows(w, PERIOD))
    w.key("final_logit_softcapping", w.config.number("final_logit_softcapping", default=0.0))
    w.ignore("lm_head.weight")
    w.copy(MODEL)
    for name, source in {"altup_proj": "projections", "altup_unembd_proj": "unembed_projections"}.items():
        parts = (w.take(f"model.altup_{source}.{stream}.weight")[None] for stream in range(OTHERS))
        w.put(f"{name}.weight", *parts)
    for _ in w.layers(layers):
        w.copy(LAYER)
        w.put("altup_correct_scale.weight", w.take("altup.correct_output_scale"))


def check(w: Writer, layers: int) -> None:
    """What GGUF has no keys for must be as in the models that were published."""
    stated = {
        "altup_num_inputs": STREAMS,
        "laurel_rank": LAUREL,
        "hidden_size_per_layer_input": PER_LAYER,
        "num_kv_shared_layers": layers - OWN_KV,
        "activation_sparsity_pattern": [SPARSITY] * SPARSE + [0.0] * (layers - SPARSE),
    }
    for name, value in stated.items():
        usual.expect(w, name, value)
