"""What most families share: the names of tensors, the numbers of a transformer, and the forms their weights are in."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import numpy as np

from edgeinfer.config import MAX_CONTEXT, MAX_HEADS, MAX_LAYERS
from edgeinfer.errors import FormatError, UnsupportedError
from edgeinfer.formats.cursor import shown
from edgeinfer.huggingface import rope
from edgeinfer.huggingface.writer import Writer

MODEL = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
ATTENTION = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
}
MLP = {"ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
NORMS = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}
LAYER = {**NORMS, **ATTENTION, **MLP}
SANDWICH = {  # a norm before and one after each branch
    "attn_norm": "input_layernorm",
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
EXPERTS = {f"{name}_exps": f"mlp.experts.{{}}.{name.removeprefix('ffn_')}_proj" for name in MLP}
BIASES = (  # for the choice of experts, by where they are in a feed-forward
    "e_score_correction_bias",
    "gate.e_score_correction_bias",
    "experts.e_score_correction_bias",
    "moe_statics.e_score_correction_bias",
    "gate.expert_bias",
)

RANK = 4  # in GGUF's key pooling_type: a score of a pair of texts

_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_DIM = ("hidden_size", "n_embd", "n_embed", "d_model", "dim")
_HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
_FF_DIM = ("intermediate_size", "n_inner", "ffn_hidden_size", "hidden_dim")
_CONTEXT = ("max_position_embeddings", "n_positions", "max_seq_len", "n_ctx", "model_max_length")
_LAYER_EPS = ("layer_norm_eps", "layer_norm_epsilon", "norm_eps", "norm_epsilon")
_RMS_EPS = ("rms_norm_eps", "norm_eps", "layer_norm_epsilon", "layernorm_epsilon")


def sizes(w: Writer, norm: str = "rms") -> None:
    """The numbers that every transformer has; `norm` is "rms" or "layer"."""
    w.key("block_count", layers(w))
    w.key("context_length", w.config.integer(*_CONTEXT, default=2048, least=1, most=MAX_CONTEXT))
    w.key("embedding_length", dim(w))
    w.key("feed_forward_length", ff_dim(w))
    w.key("attention.head_count", heads(w))
    w.key("attention.head_count_kv", kv_heads(w))
    w.key("attention.key_length", head_dim(w))
    w.key("attention.value_length", head_dim(w))
    epsilon(w, norm)


def epsilon(w: Writer, norm: str = "rms", default: float = 1e-5) -> None:
    if norm == "rms":
        w.key("attention.layer_norm_rms_epsilon", w.config.number(*_RMS_EPS, default=1e-6))
    else:
        w.key("attention.layer_norm_epsilon", w.config.number(*_LAYER_EPS, default=default))


def layers(w: Writer) -> int:
    named = w.config.get("layers_block_type", default=[])
    return w.config.integer(*_LAYERS, default=len(named) if isinstance(named, list) else 0, least=1, most=MAX_LAYERS)


def dim(w: Writer) -> int:
    return w.config.integer(*_DIM, least=1)


def heads(w: Writer) -> int:
    return w.config.integer(*_HEADS, least=1, most=MAX_HEADS)


def kv_heads(w: Writer) -> int:
    return w.config.integer("num_key_value_heads", "num_kv_heads", default=heads(w), least=1, most=MAX_HEADS)


def head_dim(w: Writer) -> int:
    return w.config.integer("head_dim", "attention_head_dim", default=dim(w) // heads(w), least=1)


def ff_dim(w: Writer) -> int:
    return w.config.integer(*_FF_DIM, default=4 * dim(w), least=1)


def head(w: Writer, table: Mapping[str, str] = MODEL) -> None:
    """What is outside of the layers; an output matrix that is to be the embedding is left out."""
    if w.config.flag("tie_word_embeddings", default=False):
        w.ignore(f"{table['output']}.weight")
        table = {name: source for name, source in table.items() if name != "output"}
    w.copy(table)


def begin(w: Writer, *, norm: str = "rms", share: float = 1.0, model: Mapping[str, str] = MODEL) -> None:
    """Most models up to their layers: the numbers, RoPE, which turns `share` of each head where config.json does not
    say, and what is outside of the layers."""
    sizes(w, norm)
    rope.write(w, head_dim(w), share)
    head(w, model)


def decoder(
    w: Writer,
    layer: Mapping[str, str] = LAYER,
    *,
    turned: bool = False,
    norm: str = "rms",
    share: float = 1.0,
    model: Mapping[str, str] = MODEL,
    prefix: str = "model.layers",
) -> None:
    """A whole model whose tensors are as GGUF has them but for their names.

    `turned`: GGUF's RoPE turns adjacent pairs where the folder's turns halves.  All else as `begin`."""
    begin(w, norm=norm, share=share, model=model)
    for _ in w.layers(layers(w), prefix):
        if turned:
            turn(w)
        w.copy(layer)


def turn(w: Writer, q: str = "self_attn.q_proj", k: str = "self_attn.k_proj") -> None:
    """Q and K with the rows of each head reordered from halves that RoPE turns as pairs to adjacent pairs."""
    for name, source, count in (("attn_q", q, heads(w)), ("attn_k", k, kv_heads(w))):
        for ending in ("weight", "bias"):
            if w.has(f"{source}.{ending}"):
                x = w.take(f"{source}.{ending}")
                w.put(f"{name}.{ending}", adjacent(x, count), shape=x.shape)


def adjacent(x: np.ndarray, count: int) -> np.ndarray:
    """A view of x, `count` heads, in which row i of the first half of a head is followed by row i of the second."""
    return x.reshape(count, 2, len(x) // count // 2, *x.shape[1:]).swapaxes(1, 2)


def expand(w: Writer, block: str, heads: int, still: int, value: int) -> None:
    """The matrices that make K and V of a latent vector: one tensor of the folder, two of GGUF, K's transposed.

    `still` are the dimensions of a head of K that do not turn, `value` those of V."""
    both = w.take(f"{block}.kv_b_proj.weight")
    both = both.reshape(heads, still + value, both.shape[1])
    w.put("attn_k_b.weight", both[:, :still].swapaxes(1, 2))
    w.put("attn_v_b.weight", both[:, still:])


def experts(w: Writer, count: int, table: Mapping[str, str] = EXPERTS) -> None:
    """One tensor each for the experts' matrices of a name: {name: source with {} for the expert's number}."""
    for name, source in table.items():
        w.put(f"{name}.weight", *(w.take(f"{source.format(i)}.weight")[None] for i in range(count)))


def lose_window(w: Writer) -> None:
    """A warning where config.json has a sliding window for all layers, and GGUF's architecture none."""
    window, context = (
        w.config.get("sliding_window", default=0),
        w.config.integer(*_CONTEXT, default=2048, most=MAX_CONTEXT),
    )
    if type(window) is int and 0 < window < context and w.config.get("use_sliding_window", default=True) is True:
        warnings.warn(
            f"{w.config.where} has a sliding window of {window} tokens, which {w.arch} has not in GGUF: answers may "
            "differ where more are read",
            stacklevel=2,
        )


def expert_keys(w: Writer) -> int:
    """The numbers of a mixture of experts, as far as config.json has them; how many experts there are."""
    count = w.config.integer("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts", least=1)
    w.key("expert_count", count)
    used = ("num_experts_per_tok", "num_experts_per_token", "moe_k", "moe_top_k", "top_k_experts")
    w.key("expert_used_count", w.config.integer(*used, least=1))
    if w.config.has("moe_intermediate_size"):
        w.key("expert_feed_forward_length", w.config.integer("moe_intermediate_size"))
    if w.config.has("norm_topk_prob") or w.config.has("moe_renormalize"):
        w.key("expert_weights_norm", w.config.flag("norm_topk_prob", "moe_renormalize"))
    if w.config.has("routed_scaling_factor"):
        w.key("expert_weights_scale", w.config.number("routed_scaling_factor"))
    shared = w.config.integer("n_shared_experts", "num_shared_experts", "moe_num_shared_experts", default=0)
    if shared:
        w.key("expert_shared_count", shared)
    if w.config.has("shared_expert_intermediate_size"):
        w.key("expert_shared_feed_forward_length", w.config.integer("shared_expert_intermediate_size"))
    return count


def routed(w: Writer) -> int:
    """`expert_keys`, and those of a router that goes by a sigmoid, perhaps over groups of experts."""
    count = expert_keys(w)
    w.key("expert_gating_func", 2)  # sigmoid
    w.key("leading_dense_block_count", dense_layers(w))
    groups = ("n_group", "num_expert_group")
    if any(map(w.config.has, groups)) and w.config.has("topk_group"):
        w.key("expert_group_count", w.config.integer(*groups))
        w.key("expert_group_used_count", w.config.integer("topk_group"))
    return count


def dense_layers(w: Writer) -> int:
    """How many layers come before the first that has experts."""
    kinds = w.config.get("mlp_layer_types", default=[])
    if isinstance(kinds, list) and "sparse" in kinds:
        return kinds.index("sparse")
    return w.config.integer("first_k_dense_replace", default=0)


def sparse(
    w: Writer,
    count: int,
    block: str = "mlp",
    shared: str = "shared_experts",
    table: Mapping[str, str] = EXPERTS,
) -> None:
    """The router, the experts and the shared expert of a layer that has them, or its dense feed-forward.

    `block` is their place, `shared` that of the shared expert in it; `table`: see `experts`."""
    if not w.has(f"{block}.gate.weight"):
        w.copy({name: source.replace("mlp", block) for name, source in MLP.items()})
        return
    w.copy({"ffn_gate_inp": f"{block}.gate", "ffn_gate_inp_shexp": f"{block}.shared_expert_gate"})
    w.copy({f"{name}_shexp": f"{block}.{shared}.{name[4:]}_proj" for name in MLP})
    for bias in BIASES:
        if w.has(f"{block}.{bias}"):
            w.put("exp_probs_b.bias", w.take(f"{block}.{bias}").reshape(-1))
    if w.has(f"{block}.experts.gate_up_proj"):
        stacked(w, f"{block}.experts")
        return
    experts(w, count, {name: source.replace("mlp", block) for name, source in table.items()})


def stacked(w: Writer, block: str) -> None:
    """Experts of which one tensor holds gate and up, [experts, 2 * width, dim], and one down, [experts, dim, width];
    or, in other folders, both transposed."""
    both, down = w.take(f"{block}.gate_up_proj"), w.take(f"{block}.down_proj")
    if both.shape[1] == down.shape[2]:
        both, down = both.swapaxes(1, 2), down.swapaxes(1, 2)
    w.put("ffn_gate_exps.weight", both[:, : both.shape[1] // 2])
    w.put("ffn_up_exps.weight", both[:, both.shape[1] // 2 :])
    w.put("ffn_down_exps.weight", down)


def windows(w: Writer, period: int) -> np.ndarray:
    """bool [layers]: which layers have a sliding window; all but each `period`-th where config.json does not say."""
    count = layers(w)
    kinds = ["full_attention" if (layer + 1) % period == 0 else "sliding_attention" for layer in range(count)]
    return np.array([kind == "sliding_attention" for kind in w.config.texts("layer_types", count=count, default=kinds)])


def by_part(x: np.ndarray, heads: int) -> np.ndarray:
    """A view of x, the Q, K and V of one head after the other, as all of Q, all of K and all of V."""
    return x.reshape(heads, 3, len(x) // heads // 3, *x.shape[1:]).swapaxes(0, 1)


def one_more(x: np.ndarray) -> np.ndarray:
    """Norms whose weights are stored as what is to be added to 1."""
    return x + np.float32(1)


def decay(x: np.ndarray) -> np.ndarray:
    """The decay of a state space, stored as the logarithm of its opposite."""
    opposite: np.ndarray = -np.exp(x)
    return opposite


def both_ways(w: Writer) -> None:
    """An encoder: every token sees all others; and how many texts its tokens may belong to."""
    w.key("attention.causal", False)
    w.pairs["tokenizer.ggml.token_type_count"] = w.config.integer("type_vocab_size", default=1, least=1)


def score(w: Writer, source: str) -> np.ndarray:
    """The matrix at the end of a cross-encoder, which gives one score.  UnsupportedError if it gives several."""
    matrix = w.take(f"{source}.weight")
    if len(matrix) != 1:
        raise UnsupportedError(f"the classifier tells {len(matrix)} labels apart; used are those that give one score")
    w.key("pooling_type", RANK)
    return matrix


def expect(w: Writer, name: str, *known: object) -> None:
    """UnsupportedError where config.json says anything but one of `known` for what the architecture means and GGUF has
    no key for; the first of them is meant where it says nothing."""
    found = w.config.get(name, default=known[0])
    if found not in known:
        raise UnsupportedError(f"{w.config.where}: {name} is {shown(str(found))}; {w.arch} has {shown(str(known[0]))}")


def expect_activation(w: Writer, *known: str) -> None:
    """FormatError where config.json has another activation than GGUF's architecture means."""
    names = ("hidden_act", "hidden_activation", "activation_function", "mlp_hidden_act", "activation")
    name = w.config.text(*names, default=known[0])
    if name not in known:
        raise FormatError(f"{w.config.where}: the activation is {shown(name)}; {w.arch} has {' or '.join(known)}")
