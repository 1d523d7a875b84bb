"""GLM 4.5 and 4.6, the text part of GLM 4.5V, Solar Open: dots.llm1's names, the norm before the feed-forward by
another in GGUF."""

from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer
from edgeinfer.models.huggingface import dots1

ARCH = "glm4moe"
CLASSES = ("Glm4MoeForCausalLM", "Glm4vMoeForConditionalGeneration", "SolarOpenForCausalLM")
NORMS = {"attn_norm": "input_layernorm", "post_attention_norm": "post_attention_layernorm"}


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    usual.begin(w, share=1.0 if w.source_class == "SolarOpenForCausalLM" else 0.5)
    dots1.layers(w, NORMS)
