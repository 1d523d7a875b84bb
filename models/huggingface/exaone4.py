"""EXAONE 4: norms after each branch only; in the 32B three layers with a window to one without."""

from edgeinfer.errors import UnsupportedError
from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer
from edgeinfer.models.huggingface import olmo2

ARCH = "exaone4"
CLASSES = ("Exaone4ForCausalLM",)
LAYERS_OF_32B = 64
PERIOD = 4


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    usual.decoder(w, olmo2.LAYER)
    windowed = w.config.has("sliding_window") and w.config.has("sliding_window_pattern")
    if windowed != (usual.layers(w) == LAYERS_OF_32B):
        raise UnsupportedError(f"{w.config.where}: {w.arch} has windows in {LAYERS_OF_32B} layers and in no other size")
    if windowed:
        w.key("attention.sliding_window", w.config.integer("sliding_window"))
