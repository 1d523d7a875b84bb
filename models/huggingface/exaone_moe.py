"""K-EXAONE: dots.llm1's names; three layers with a window to one without."""

from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer
from edgeinfer.models.huggingface import dots1

ARCH = "exaone-moe"
CLASSES = ("ExaoneMoeForCausalLM",)
PERIOD = 4


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    usual.begin(w)
    w.key("attention.sliding_window", w.config.integer("sliding_window"))
    w.key("attention.sliding_window_pattern", usual.windows(w, PERIOD))
    dots1.layers(w, usual.NORMS)
