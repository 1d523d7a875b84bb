"""Granite with windows and attention sinks: Granite's names; experts in some."""

from edgeinfer.errors import UnsupportedError
from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer
from edgeinfer.models.huggingface import granite, granitemoe

ARCH = "granite_swa"
CLASSES = ("GraniteSWAForCausalLM", "GraniteMoeSWAForCausalLM")


def write(w: Writer) -> None:
    granite.scales(w)
    usual.begin(w)
    w.key("attention.sliding_window", w.config.integer("sliding_window"))
    w.key("attention.sliding_window_pattern", usual.windows(w, 1))
    bases = w.config.numbers("layer_rope_theta", count=usual.layers(w)) if w.config.has("layer_rope_theta") else []
    if any(base != w.pairs[f"{ARCH}.rope.freq_base"] for base in bases):
        raise UnsupportedError(f"{w.config.where}: layer_rope_theta differs between layers, which {w.arch} has not")
    experts = granitemoe.expert_keys(w)
    for _ in w.layers(usual.layers(w)):
        usual.turn(w)
        w.copy(usual.LAYER)
        if experts:
            w.copy({"ffn_gate_inp": "block_sparse_moe.router"})
            usual.stacked(w, "block_sparse_moe.experts")
        w.put("attn_sinks.weight", w.take("self_attn.sinks"))
