"""GPT-NeoX and Pythia: Q, K and V of one head after the other."""

from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer

ARCH = "gptneox"
CLASSES = ("GPTNeoXForCausalLM",)
MODEL = {"token_embd": "gpt_neox.embed_in", "output_norm": "gpt_neox.final_layer_norm", "output": "embed_out"}
LAYER = {
    **usual.NORMS,
    "attn_output": "attention.dense",
    "ffn_up": "mlp.dense_h_to_4h",
    "ffn_down": "mlp.dense_4h_to_h",
}


def write(w: Writer) -> None:
    usual.expect_activation(w, "gelu", "gelu_new", "gelu_pytorch_tanh", "gelu_fast")
    usual.begin(w, norm="layer", share=0.25, model=MODEL)
    w.key("use_parallel_residual", w.config.flag("use_parallel_residual", default=True))
    for _ in w.layers(usual.layers(w), "gpt_neox.layers"):
        for ending in ("weight", "bias"):
            if w.has(f"attention.query_key_value.{ending}"):
                x = w.take(f"attention.query_key_value.{ending}")
                w.put(f"attn_qkv.{ending}", usual.by_part(x, usual.heads(w)), shape=x.shape)
        w.copy(LAYER)
