"""Command R7B: Command-R's names; three layers with a window to one without."""

from edgeinfer.errors import UnsupportedError
from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer
from edgeinfer.models.huggingface import command_r

ARCH = "cohere2"
CLASSES = ("Cohere2ForCausalLM",)
PERIOD = 4


def write(w: Writer) -> None:
    command_r.write(w)
    w.key("attention.sliding_window", w.config.integer("sliding_window"))
    if any(local != ((layer + 1) % PERIOD != 0) for layer, local in enumerate(usual.windows(w, PERIOD))):
        raise UnsupportedError(f"{w.config.where}: layer_types are not those of a global layer every {PERIOD} layers")
