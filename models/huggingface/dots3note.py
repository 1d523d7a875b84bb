"""dots.note, its text part: DeepSeek V3.2's names; layers with a window have sizes of their own.

GGUF's indexer turns halves of what turns in a head, the folder's adjacent pairs, so its rows are reordered.
"""

import functools
import math

import numpy as np

from edgeinfer.errors import UnsupportedError
from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer
from edgeinfer.models.huggingface import deepseek2, deepseek32

ARCH = "dots3note"
CLASSES = ("Dots3NoteForCausalLM",)
DEFAULTS = {"rope_theta": 8e7}
LOCAL_BASE, WINDOW = 5e4, 512  # where config.json has none
LAYER = {
    **usual.NORMS,
    **{name: f"self_attn.{source}" for name, source in deepseek2.LATENT.items()},
    "indexer.proj": deepseek32.INDEXER["indexer.proj"],
    "attn_gate": "self_attn.g_proj",
    "attn_k_norm": "self_attn.k_rope_only_layernorm",
}
SCALED = {"attn_q_a_norm": "self_attn.q_a_layernorm", "attn_kv_a_norm": "self_attn.kv_a_layernorm"}


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    deepseek2.numbers(w)
    near = w.config.part("rope_parameters").part("sliding_attention").number("rope_theta", default=LOCAL_BASE)
    w.key("rope.freq_base_swa", w.config.number("swa_rope_theta", default=near))
    deepseek32.indexer(w)
    usual.head(w)
    count = usual.routed(w)
    shared = w.config.integer("moe_shared_expert_intermediate_size", "shared_experts_intermediate_size")
    w.key("expert_shared_feed_forward_length", shared * w.config.integer("n_shared_experts", least=1))
    w.key("attention.sliding_window", w.config.integer("sliding_window", "sliding_window_size", default=WINDOW))
    heads, full = np.zeros(usual.layers(w), np.int32), np.zeros(usual.layers(w), bool)
    for layer in w.layers(len(heads)):
        for name, source in SCALED.items():  # the vectors grow as if they were as wide as the model
            x = w.take(f"{source}.weight")
            growth = np.float32(math.sqrt(usual.dim(w) / len(x)))
            w.put(f"{name}.weight", x, change=functools.partial(np.multiply, growth))
        w.copy(LAYER)
        heads[layer], full[layer] = len(w.take("self_attn.g_proj.weight")), w.has("self_attn.indexer.wk.weight")
        attention(w, int(heads[layer]), "" if full[layer] else "_swa")
        usual.sparse(w, count)
    kinds = ["indexed_attention" if each else "sliding_attention" for each in full]
    stated = w.config.texts("layer_types", count=len(full), default=kinds)
    if any((kind == "sliding_attention") == each for kind, each in zip(stated, full, strict=True)):
        raise UnsupportedError(f"{w.config.where}: layers without a window have no indexer, as {w.arch} has it")
    w.key("attention.sliding_window_pattern", ~full)
    w.key("attention.head_count", heads)
    w.key("attention.indexer.types", full)


def attention(w: Writer, heads: int, ending: str) -> None:
    """By the sizes that the tensors have; `ending` of their keys."""
    rank, turning = (len(w.take(f"self_attn.{name}_layernorm.weight")) for name in ("kv_a", "k_rope_only"))
    still = len(w.take("self_attn.q_b_proj.weight")) // heads - turning
    value = w.take("self_attn.o_proj.weight").shape[-1] // heads
    if turning != w.config.integer("qk_rope_head_dim"):
        raise UnsupportedError(f"{turning} dimensions of a head turn in a layer, {w.config.where} has another number")
    for name, size in (("kv_lora_rank", rank), ("key_length", rank + turning), ("value_length", rank)):
        w.key(f"attention.{name}{ending}", size)
    w.key(f"attention.key_length_mla{ending}", still + turning)
    w.key(f"attention.value_length_mla{ending}", value)
    usual.expand(w, "self_attn", heads, still, value)
    if ending:
        return
    size = w.config.integer("index_head_dim", least=1)
    for name in ("attn_q_b.weight", "attn_k.weight", "k_norm.weight", "k_norm.bias"):
        part, _, kind = name.rpartition(".")
        x = w.take(f"{deepseek32.INDEXER[f'indexer.{part}']}.{kind}")
        each = x.reshape(-1, size, *x.shape[1:])
        parts = [rows for head in each for rows in (head[:turning:2], head[1:turning:2], head[turning:]) if len(rows)]
        w.put(f"indexer.{name}", *parts)
