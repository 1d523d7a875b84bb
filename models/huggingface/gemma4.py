"""Gemma 4, its text part too: heads of two widths, experts beside the dense feed-forward in some sizes."""

import numpy as np

from edgeinfer.errors import UnsupportedError
from edgeinfer.formats.cursor import shown
from edgeinfer.huggingface import rope, usual
from edgeinfer.huggingface.writer import Writer
from edgeinfer.models.huggingface import gemma3n

ARCH = "gemma4"
CLASSES = ("Gemma4ForCausalLM", "Gemma4ForConditionalGeneration")
LAYER = {
    **usual.SANDWICH,
    **usual.ATTENTION,
    **usual.MLP,
    **gemma3n.OWN_INPUT,
    "post_ffw_norm_1": "post_feedforward_layernorm_1",
    "post_ffw_norm_2": "post_feedforward_layernorm_2",
    "pre_ffw_norm_2": "pre_feedforward_layernorm_2",
    "ffn_gate_inp": "router.proj",
}
SINGLE = {
    "layer_output_scale.weight": "layer_scalar",
    "ffn_gate_inp.scale": "router.scale",
    "ffn_down_exps.scale": "router.per_expert_scale",
    "ffn_gate_up_exps.weight": "experts.gate_up_proj",
    "ffn_down_exps.weight": "experts.down_proj",
}
PERIOD = 6
NEVER = 1e30  # divides the frequencies of pairs that do not turn


def write(w: Writer) -> None:
    count, local = usual.layers(w), usual.windows(w, PERIOD)
    narrow = usual.head_dim(w)
    usual.sizes(w)
    w.key("attention.sliding_window", w.config.integer("sliding_window"))
    w.key("attention.sliding_window_pattern", local)
    w.key("attention.shared_kv_layers", w.config.integer("num_kv_shared_layers", default=0))
    w.key("embedding_length_per_layer_input", w.config.integer("hidden_size_per_layer_input", default=0))
    if w.config.has("final_logit_softcapping"):
        w.key("final_logit_softcapping", w.config.number("final_logit_softcapping"))
    if w.config.flag("enable_moe_block", default=False):
        usual.expert_keys(w)
    w.ignore("lm_head.weight")
    w.copy(gemma3n.MODEL)
    kv_heads, widths, wide = np.full(count, usual.kv_heads(w), np.int32), np.zeros(count, np.int32), narrow
    for layer in w.layers(count):
        w.copy(LAYER)
        for name, source in SINGLE.items():
            if w.has(source):
                w.put(name, w.take(source))
        widths[layer] = len(w.take("mlp.gate_proj.weight"))
        head = len(w.take("self_attn.q_norm.weight"))
        wide = wide if local[layer] else head
        if w.has("self_attn.k_proj.weight"):
            kv_heads[layer] = len(w.take("self_attn.k_proj.weight")) // head
    w.key("attention.head_count_kv", kv_heads)
    w.key("feed_forward_length", widths)
    turns(w, narrow, wide)


def turns(w: Writer, narrow: int, wide: int) -> None:
    """The widths of heads and the two RoPEs: of a global head only the first pairs turn."""
    for ending, head in (("", wide), ("_swa", narrow)):
        w.key(f"attention.key_length{ending}", head)
        w.key(f"attention.value_length{ending}", head)
        w.key(f"rope.dimension_count{ending}", head)
    w.key("rope.freq_base_swa", rope.local_base(w.config))
    found = rope.parameters(w.config)
    w.key("rope.freq_base", found.number("rope_theta", default=1e6))
    kind = found.text("rope_type", default="proportional")
    if kind not in ("proportional", "default"):
        raise UnsupportedError(f"{found.where}: rope_type is {shown(kind)}; {w.arch} has 'proportional'")
    share = found.number("partial_rotary_factor", default=0.25)
    factors = np.full(wide // 2, NEVER, np.float32)
    factors[: int(share * wide // 2)] = 1
    w.put("rope_freqs.weight", factors)
