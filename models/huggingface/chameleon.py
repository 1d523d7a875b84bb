"""Chameleon, text: Llama's names; GGUF's RoPE turns adjacent pairs, so norms of heads are reordered as Q and K are."""

from edgeinfer.errors import UnsupportedError
from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer
from edgeinfer.models.chameleon import PICTURES

ARCH = "chameleon"
CLASSES = ("ChameleonForConditionalGeneration",)
MARK = "IMGIMG"  # what begins the names of the tokens that pictures are made of


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    check(w)
    usual.begin(w)
    w.key("swin_norm", w.config.flag("swin_norm", default=False))
    for _ in w.layers(usual.layers(w)):
        usual.turn(w)
        for name, heads in (("q", usual.heads(w)), ("k", usual.kv_heads(w))):
            for ending in ("weight", "bias"):
                x = w.take(f"self_attn.{name}_norm.{ending}")
                w.put(f"attn_{name}_norm.{ending}", usual.adjacent(x.reshape(-1), heads), shape=x.shape)
        w.copy(usual.LAYER)


def check(w: Writer) -> None:
    """Which tokens cannot be drawn must be as GGUF has it, which has no key for them."""
    ids = w.config.part("vocabulary_map").values
    pictures = [str(number) for name, number in ids.items() if name.startswith(MARK)]
    if pictures and sorted(pictures) != sorted(map(str, range(PICTURES.start, PICTURES.stop))):
        wanted = f"{PICTURES.start} to {PICTURES.stop - 1}"
        raise UnsupportedError(f"{w.config.where}: tokens of pictures have other ids than {wanted}, those of {w.arch}")
