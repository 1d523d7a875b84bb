"""DeepSeek-OCR 2, its text part: Llama's names, and DeepSeek's of the experts."""

from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer

ARCH = "deepseek2-ocr"
CLASSES = ("DeepseekOcr2ForConditionalGeneration",)


def write(w: Writer) -> None:
    decode(w)


def decode(w: Writer, turned: bool = False) -> None:
    """`turned`: as of `usual.decoder`."""
    usual.expect_activation(w, "silu")
    usual.begin(w)
    w.key("leading_dense_block_count", usual.dense_layers(w))
    count = usual.expert_keys(w)
    for _ in w.layers(usual.layers(w)):
        if turned:
            usual.turn(w)
        w.copy({**usual.NORMS, **usual.ATTENTION})
        usual.sparse(w, count)
