"""SmolLM3: Llama's names; no positions in every fourth layer."""

from edgeinfer.errors import UnsupportedError
from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer

ARCH = "smollm3"
CLASSES = ("SmolLM3ForCausalLM",)
PERIOD = 4


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    usual.decoder(w, turned=True)
    turned = [int((layer + 1) % PERIOD != 0) for layer in range(usual.layers(w))]
    if w.config.get("no_rope_layers", default=turned) != turned:
        raise UnsupportedError(f"{w.config.where}: no_rope_layers are not every {PERIOD}th")
