"""OLMo 2 and 3: norms after each branch only; in OLMo 3 some layers have a window."""

from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer

ARCH = "olmo2"
CLASSES = ("Olmo2ForCausalLM", "Olmo3ForCausalLM")
LAYER = {
    **usual.ATTENTION,
    **usual.MLP,
    "post_attention_norm": "post_attention_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
PERIOD = 4


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    usual.decoder(w, LAYER)
    if w.config.has("sliding_window"):
        w.key("attention.sliding_window", w.config.integer("sliding_window"))
        w.key("attention.sliding_window_pattern", usual.windows(w, PERIOD))
