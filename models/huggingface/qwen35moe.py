"""Qwen3.5 with experts, its text part too: Qwen3.5's names."""

from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer
from edgeinfer.models.huggingface import qwen2vl, qwen3next, qwen35

ARCH = "qwen35moe"
CLASSES = ("Qwen3_5MoeForCausalLM", "Qwen3_5MoeForConditionalGeneration")


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    qwen3next.numbers(w)
    qwen2vl.sections(w)
    count = usual.expert_keys(w)
    usual.head(w)
    for _ in w.layers(usual.layers(w)):
        qwen35.mixer(w)
        usual.sparse(w, count, shared="shared_expert")
