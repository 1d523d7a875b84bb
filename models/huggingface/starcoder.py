"""StarCoder 1: GPT-2's names, nothing transposed, one head of K and V."""

from edgeinfer.errors import UnsupportedError
from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer
from edgeinfer.models.huggingface.gpt2 import LINEAR, MODEL, NORMS

ARCH = "starcoder"
CLASSES = ("GPTBigCodeForCausalLM",)


def write(w: Writer) -> None:
    usual.expect_activation(w, "gelu_pytorch_tanh", "gelu_new")
    if not w.config.flag("multi_query", default=True):
        raise UnsupportedError(f"{w.config.where}: multi_query is false; {w.arch} has one head of K and V")
    usual.sizes(w, "layer")
    w.key("attention.head_count_kv", 1)
    usual.head(w, MODEL)
    for _ in w.layers(usual.layers(w), "transformer.h"):
        w.copy({**NORMS, **LINEAR})
