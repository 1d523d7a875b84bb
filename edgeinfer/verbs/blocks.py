"""Builder: every verb, and the compositions of them that most architectures share."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from edgeinfer import rope
from edgeinfer.config import MIN_ROPE_BASE
from edgeinfer.errors import FormatError
from edgeinfer.op import Value
from edgeinfer.rope import Pairs, Rope
from edgeinfer.verbs.attention import Attention
from edgeinfer.verbs.experts import Experts, Router
from edgeinfer.verbs.recurrence import Recurrence

LOCAL_ROPE_BASE = 10_000.0
ROUTER_GATES = {1: "softmax", 2: "sigmoid", 3: "chosen", 4: "sqrtsoftplus"}  # by the number in expert_gating_func


class Builder(Attention, Experts, Recurrence):
    """What an architecture function gets.  The compositions take the tensors by the names that GGUF gives them."""

    def head_norm(self, x: Value, name: str) -> Value:
        """RMS norm of each head of key_dim, all with the same weights."""
        return self.norm(x, name, self.config.key_dim)

    def sliding(self, period: int = 0, first: bool = False) -> tuple[bool, ...]:
        """Which layers have a sliding window, as the file says or, where it does not, all but each `period`-th: the
        last of each period, or its `first`."""
        key, layers = "attention.sliding_window_pattern", self.config.layers
        if self.keys.has(key) and not isinstance(self.keys.file.metadata[f"{self.keys.arch}.{key}"], int):
            return self.keys.flags(key, layers)
        period = self.keys.integer(key, period, least=0)
        return tuple(period == 0 or (layer + (not first)) % period != 0 for layer in range(layers))

    def shared_kv(self, layer: int, own: int, kinds: tuple[bool, ...]) -> int | None:
        """The layer whose K and V `layer` reads: None for its own, which the first `own` layers have; for the others
        the last of those that is of its kind.  Their tensors for K and V, if there are any, are not used."""
        if layer < own:
            return None
        self.ignore("attn_k", "attn_v", "attn_k_norm")
        alike = [other for other in range(own) if kinds[other] == kinds[layer]]
        if not alike:
            raise FormatError(f"{self.config.arch}: layer {layer} shares K and V, but no earlier layer is of its kind")
        return alike[-1]

    def model_rope(self, pairs: Pairs, local: bool = False) -> Rope:
        """The RoPE that the file's keys and frequency factors (rope_freqs, or LongRoPE's two) describe; `local`: that
        of the layers with a sliding window, which may have another base and width, and as many of the factors."""
        config = self.config
        if local:
            base = self.keys.number("rope.freq_base_swa", config.rope_base, least=MIN_ROPE_BASE)
            dim = self.keys.turning("rope.dimension_count_swa", config.rope_dim, config.key_dim)
            config = dataclasses.replace(config, rope_base=base, rope_dim=dim)
        has_long, has_short = self.has("rope_factors_long"), self.has("rope_factors_short")
        if has_long or has_short:
            size = "long" if self.n_ctx > config.rope_context else "short"
            factors = self.factors(f"rope_factors_{size}")
        else:
            factors = self.factors("rope_freqs") if self.has("rope_freqs") else None
        if factors is None:
            return rope.of_model(config, pairs)
        if config.rope_dim > 2 * len(factors):
            turning = f"{config.rope_dim} dimensions of each head turn in layers with a window"
            raise FormatError(f"{config.arch}: {turning}, of which {2 * len(factors)} have frequency factors")
        return rope.of_model(config, pairs, factors[: config.rope_dim // 2])

    def factors(self, name: str) -> np.ndarray | None:
        """Divisors of the frequencies, [pairs]; None where they are missing, which `finish` reports."""
        (full,) = self._weight(name, self.config.rope_dim // 2)
        if full not in self._tensors:
            return None
        factors = self._tensors[full].float32()
        wrong = factors[~((factors > 0) & np.isfinite(factors))]
        if wrong.size:
            raise FormatError(f"tensor {full} holds a factor of {wrong[0]:g}, by which no frequency can be divided")
        return factors

    def local_rope(self, head_dim: int | None = None, base: float = LOCAL_ROPE_BASE, pairs: Pairs = "halves") -> Rope:
        """The RoPE of sliding-window layers as Gemma's: a base of their own, and positions that are never scaled.
        `base`, and `head_dim` if not that of the other layers, are what holds where the file does not say."""
        base = self.keys.number("rope.freq_base_swa", base, least=MIN_ROPE_BASE)
        widths = (self.config.rope_dim, self.config.key_dim) if head_dim is None else (head_dim, head_dim)
        plain = rope.plain(self.keys.turning("rope.dimension_count_swa", *widths), base, pairs)
        return dataclasses.replace(plain, scale=self.config.rope_attn_factor)

    def typed_embedding(self, positions: bool = False) -> Value:
        """How BERT and its kin begin: the sum of the embeddings of a token, of its position if that is wanted, and of
        the text of a pair it is in where the file has token_types; normed."""
        x = self.embed()
        x = self.add(x, self.positions("position_embd")) if positions else x
        x = self.add(x, self.segments("token_types")) if self.has("token_types") else x
        return self.layer_norm(x, "token_embd_norm")

    def qkv(self, h: Value) -> tuple[Value, Value, Value]:
        """Q, K and V of `h`, from attn_q, attn_k and attn_v or from attn_qkv that stacks them."""
        c = self.config
        q_width, k_width, v_width = c.heads * c.key_dim, c.kv_heads * c.key_dim, c.kv_heads * c.value_dim
        if self.has("attn_qkv"):
            qkv = self.linear(h, "attn_qkv", q_width + k_width + v_width)
            return (
                self.split(qkv, 0, q_width),
                self.split(qkv, q_width, k_width),
                self.split(qkv, q_width + k_width, v_width),
            )
        return self.linear(h, "attn_q", q_width), self.linear(h, "attn_k", k_width), self.linear(h, "attn_v", v_width)

    def gated_mlp(self, h: Value, act: str, width: int | None = None, ending: str = "") -> Value:
        """ffn_down(act(ffn_gate(h)) * ffn_up(h)), `width` or ff_dim wide inside; ffn_up may hold the gate's rows too,
        before its own.  `ending` of the tensors' names: "_shexp" for the shared expert."""
        width = self._ff_dim() if width is None else width
        if self.has(f"ffn_gate{ending}"):
            gate, up = self.linear(h, f"ffn_gate{ending}", width), self.linear(h, f"ffn_up{ending}", width)
        else:
            both = self.linear(h, f"ffn_up{ending}", 2 * width)
            gate, up = self.split(both, 0, width), self.split(both, width, width)
        return self.linear(self.gated(gate, up, act), f"ffn_down{ending}", self.config.dim)

    def plain_mlp(self, h: Value, act: str, width: int | None = None, ending: str = "") -> Value:
        """ffn_down(act(ffn_up(h)))"""
        width = self._ff_dim() if width is None else width
        h = self.activate(self.linear(h, f"ffn_up{ending}", width), act)
        return self.linear(h, f"ffn_down{ending}", self.config.dim)

    def together(self, *attended: Value) -> Value:
        """Attention to keys of several kinds at once, of what `attend` gave of each, with `logs`."""
        heads, kinds = self.config.heads, len(attended)
        logs = self.join(*(self.split(y, y.width - heads, heads) for y in attended), groups=heads)
        shares = self.softmax(logs, kinds)
        parts = [
            self.mul(self.split(y, 0, y.width - heads), self.split(shares, kind, 1, kinds))
            for kind, y in enumerate(attended)
        ]
        return functools.reduce(self.add, parts)

    def experts(self, h: Value, act: str, width: int, router: Router, scores: Value | None = None) -> Value:
        """Mixture of experts `width` wide inside, weighed by `scores` or by ffn_gate_inp(h).

        The experts are gated where the file has ffn_gate_exps, or ffn_gate_up_exps that stacks gate and up.
        """
        count = self.keys.integer("expert_count")
        choice = self.route(self.linear(h, "ffn_gate_inp", count) if scores is None else scores, router)
        return self.chosen_experts(h, choice, act, width, count)

    def chosen_experts(self, h: Value, choice: Value, act: str, width: int, count: int, ending: str = "_exps") -> Value:
        """What the chosen ones of `count` experts make of `h`, summed by their weights."""
        used, size = choice.width // 2, 2 * width
        if self.has(f"ffn_gate_up{ending}"):
            both = self.expert_linear(h, choice, f"ffn_gate_up{ending}", count, size)
            h = self.gated(self.split(both, 0, width, size), self.split(both, width, width, size), act)
        elif self.has(f"ffn_gate{ending}"):
            gate = self.expert_linear(h, choice, f"ffn_gate{ending}", count, width)
            h = self.gated(gate, self.expert_linear(h, choice, f"ffn_up{ending}", count, width), act)
        else:
            h = self.activate(self.expert_linear(h, choice, f"ffn_up{ending}", count, width), act)
        h = self.expert_linear(h, choice, f"ffn_down{ending}", count, self.config.dim, each=True)
        return self.mix(h, self.split(choice, used, used), used)

    def moe(self, h: Value, act: str, gate: str = "softmax", normalise: bool = False) -> Value:
        """The feed-forward of a layer: dense where it has no ffn_gate_inp, else experts by the model's router.

        Where there is a shared expert it is added, weighed by sigmoid(ffn_gate_inp_shexp(h)) where there is that.
        """
        if not self.has("ffn_gate_inp"):
            return self.gated_mlp(h, act)
        width = self.expert_width()
        y = self.experts(h, act, width, self.router(gate, normalise))
        if not self.has("ffn_up_shexp"):
            return y
        width = self.keys.integer("expert_shared_feed_forward_length", 0, least=0) or width * self.keys.integer(
            "expert_shared_count", 1
        )
        shared = self.gated_mlp(h, act, width, "_shexp")
        if self.has("ffn_gate_inp_shexp"):
            shared = self.mul(shared, self.activate(self.linear(h, "ffn_gate_inp_shexp", 1), "sigmoid"))
        return self.add(y, shared)

    def router(self, gate: str = "softmax", normalise: bool = False) -> Router:
        """The router that the file's keys describe, `gate` and `normalise` where they do not say."""
        number = self.keys.integer("expert_gating_func", 0, least=0)
        if number and number not in ROUTER_GATES:
            raise FormatError(f"{self.keys.arch}.expert_gating_func is {number}, known are: {list(ROUTER_GATES)}")
        return Router(
            used=self.expert_integer("expert_used_count"),
            gate=ROUTER_GATES.get(number, gate),
            bias=next((n for n in ("exp_probs_b.bias", "exp_probs_b") if self._full(n) in self._tensors), None),
            normalise=self.keys.flag("expert_weights_norm", normalise),
            scale=self.keys.number("expert_weights_scale", 1.0) or 1.0,
            groups=self.expert_integer("expert_group_count", 1),
            groups_used=self.expert_integer("expert_group_used_count", 1),
        )

    def unembed(self, h: Value) -> Value:
        """Output matrix, which is the token embedding where the file has no other."""
        self.hidden = h
        return self.linear(h, "output" if self.has("output") else "token_embd", self.config.vocab)

    def logits(self, x: Value) -> Value:
        """Output norm, as RMS norm, and output matrix."""
        return self.unembed(self.norm(self.outputs(x), "output_norm"))

    def answer(self, text: Value) -> None:
        """What was written so far reads a text, of which `text` is the last rows; what follows reads the tokens of its
        answer, and of the text no more than what it was told to `store`."""
        self.outputs(text)
        self.reader, self.ops, self.text = self.ops, [], text
        self.start = self.keys.integer("decoder_start_token_id", 0, least=0, most=self.config.vocab - 1)

    def expert_width(self) -> int:
        """Width inside an expert."""
        return self.keys.integer("expert_feed_forward_length", 0, least=0) or self._ff_dim()

    def expert_integer(self, key: str, default: int | None = None) -> int:
        """A number of experts or groups: no more than there are experts."""
        return self.keys.integer(key, default, most=self.keys.integer("expert_count"))

    def _ff_dim(self) -> int:
        if not self.config.ff_dim:
            raise FormatError(f"{self.config.arch}.feed_forward_length is missing")
        return self.config.ff_dim
