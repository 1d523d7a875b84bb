"""StableLM: the usual names; the norms of the heads of Q and K, where there are any, have weights of their own."""

from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer

ARCH = "stablelm"
CLASSES = ("StableLmForCausalLM",)


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    usual.begin(w, norm="layer", share=0.25)
    w.key("use_parallel_residual", w.config.flag("use_parallel_residual", default=False))
    for _ in w.layers(usual.layers(w)):
        for name, count in (("q", usual.heads(w)), ("k", usual.kv_heads(w))):
            source = f"self_attn.{name}_layernorm.norms"
            if w.has(f"{source}.0.weight"):
                norms = [w.take(f"{source}.{head}.weight")[None] for head in range(count)]
                w.put(f"attn_{name}_norm.weight", *norms)
        w.copy(usual.LAYER)
