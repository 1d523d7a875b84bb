"""GLM-4 0414, the text part of GLM-4.1V and GLM-OCR: GLM-4 9B's names, norms before and after each branch."""

from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer
from edgeinfer.models.huggingface import chatglm

ARCH = "glm4"
CLASSES = ("Glm4ForCausalLM", "Glm4vForConditionalGeneration", "GlmOcrForConditionalGeneration")
LAYER = {
    **chatglm.LAYER,
    "post_attention_norm": "post_self_attn_layernorm",
    "post_ffw_norm": "post_mlp_layernorm",
}


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    usual.decoder(w, LAYER, share=0.5)
