"""Makes encoders.json: what Hugging Face transformers makes of the texts in encoders.py with the same weights.

Run by hand as `python -m tests.models.golden_encoders` where torch and transformers 5 are installed.  For jina-bert-v2
and nomic-bert-moe, which transformers lacks, a twin written from their papers and published code stands in.
"""

import json
import math
import pathlib
import re

import torch
import transformers as hf
from torch.nn import functional

from tests.models.encoders import CASES, CONTEXT, DIM, FF, HEADS, TEXTS, WINDOW, WORDS

SHAPE = {
    "hidden_size": DIM, "num_attention_heads": HEADS, "intermediate_size": FF, "num_hidden_layers": 3, "num_labels": 1,
}  # fmt: skip
GQA = {"num_key_value_heads": 1, "head_dim": 16, "rms_norm_eps": 1e-6, "max_position_embeddings": CONTEXT}
FULL_ROPE = {"rope_type": "default", "rope_theta": 1e6}
BERT_NAMES = {
    r"embeddings\.word_embeddings": "token_embd",
    r"embeddings\.position_embeddings": "position_embd",
    r"embeddings\.token_type_embeddings": "token_types",
    r"embeddings\.LayerNorm": "token_embd_norm",
    r"encoder\.layer\.(\d+)\.": r"blk.\1.",
    r"attention\.self\.(query|key|value)": lambda m: f"attn_{m[1][0]}",
    r"attention\.output\.dense": "attn_output",
    r"attention\.output\.LayerNorm": "attn_output_norm",
    r"intermediate\.dense": "ffn_up",
    r"output\.dense": "ffn_down",
    r"output\.LayerNorm": "layer_output_norm",
}
LAYER_NAMES = {
    r"embed_tokens": "token_embd",
    r"layers\.(\d+)\.": r"blk.\1.",
    r"self_attn\.([qkv])_proj": r"attn_\1",
    r"self_attn\.o_proj": "attn_output",
    r"self_attn\.([qk])_norm": r"attn_\1_norm",
    r"mlp\.(gate|up|down)_proj": r"ffn_\1",
    r"input_layernorm": "attn_norm",
    r"^norm\.": "output_norm.",
}
POST_NAMES = BERT_NAMES | LAYER_NAMES | {
    r"post_attention_layernorm": "attn_output_norm",
    r"post_mlp_layernorm": "layer_output_norm",
    r"mlp\.fc1": "ffn_up",
    r"mlp\.fc2": "ffn_down",
}  # fmt: skip
MODERN_NAMES = {
    r"embeddings\.tok_embeddings": "token_embd",
    r"embeddings\.norm": "token_embd_norm",
    r"layers\.(\d+)\.": r"blk.\1.",
    r"attn\.Wqkv": "attn_qkv",
    r"attn\.Wo": "attn_output",
    r"mlp\.Wi": "ffn_up",
    r"mlp\.Wo": "ffn_down",
    r"mlp_norm": "ffn_norm",
    r"final_norm": "output_norm",
    r"head\.dense": "cls",
    r"head\.norm": "cls.norm",
    r"classifier": "cls.output",
}


def load(model, names, tensors, prefix=r"^$", positions=0, shift=0.0):
    """The model with its parameters filled in from tensors by GGUF's names, every one of which must be used."""
    tensors = {name: torch.from_numpy(x) for name, x in tensors.items()}
    used = set()
    with torch.no_grad():
        for full, parameter in model.named_parameters():
            name = re.sub(prefix, "", full)
            for pattern, new in names.items():
                name = re.sub(pattern, new, name)
            stacked = re.fullmatch(r"(blk\.\d+\.attn_)([qkv])(\.\w+)", name)
            if stacked and name not in tensors:
                name = f"{stacked[1]}qkv{stacked[3]}"
                parameter.copy_(tensors[name].chunk(3)["qkv".index(stacked[2])])
            elif name == "position_embd.weight":
                parameter[positions:].copy_(tensors[name])
            else:
                parameter.copy_(tensors[name] - (shift if "norm" in name else 0.0))
            used.add(name)
    assert used == tensors.keys(), used ^ tensors.keys()
    return model.eval()


def without(tensors, *names):
    return {name: x for name, x in tensors.items() if not name.startswith(names)}


def classifier(pooler, out):
    return BERT_NAMES | {pooler: "cls.", out: "cls.output."}


def bert(t):
    config = hf.BertConfig(
        vocab_size=WORDS, max_position_embeddings=CONTEXT, layer_norm_eps=1e-5, pad_token_id=0, **SHAPE
    )
    model = hf.BertForSequenceClassification(config)
    load(model, classifier(r"pooler\.dense\.", r"^classifier\."), t, r"^bert\.")

    def score(ids):
        types = [[0] * (ids.index(3) + 1) + [1] * (len(ids) - ids.index(3) - 1)]
        return model(torch.tensor([ids]), token_type_ids=torch.tensor(types)).logits

    return model.bert, score


def xlm_r(t):
    config = hf.XLMRobertaConfig(
        vocab_size=WORDS, max_position_embeddings=CONTEXT + 4, type_vocab_size=1, layer_norm_eps=1e-5, pad_token_id=3,
        bos_token_id=0, eos_token_id=2, **SHAPE,
    )  # fmt: skip
    model = hf.XLMRobertaForSequenceClassification(config)
    load(model, classifier(r"classifier\.dense\.", r"classifier\.out_proj\."), t, r"^roberta\.", positions=4)
    return model.roberta, lambda ids: model(torch.tensor([ids])).logits


def nomic_bert(t):
    config = hf.NomicBertConfig(vocab_size=WORDS, layer_norm_eps=1e-5, pad_token_id=0, **SHAPE)
    return load(hf.NomicBertModel(config), POST_NAMES, t), None


def jina_bert_v3(t):
    config = hf.JinaEmbeddingsV3Config(vocab_size=WORDS, pad_token_id=3, **SHAPE)
    model = hf.JinaEmbeddingsV3Model(config)
    del model.pooler
    model.pooler = None
    return load(model, POST_NAMES, t), None


def modern_bert(t):
    config = hf.ModernBertConfig(
        vocab_size=WORDS, local_attention=WINDOW, global_attn_every_n_layers=3, classifier_pooling="mean",
        pad_token_id=0, cls_token_id=2, sep_token_id=3,
        bos_token_id=2, eos_token_id=3, **(SHAPE | {"num_hidden_layers": 4}),
    )  # fmt: skip
    model = load(hf.ModernBertForSequenceClassification(config), MODERN_NAMES, t, r"^model\.")
    return model.model, lambda ids: model(torch.tensor([ids])).logits


def gemma_embedding(t):
    config = hf.Gemma3TextConfig(
        vocab_size=WORDS, use_bidirectional_attention=True, sliding_window=WINDOW, pad_token_id=3, bos_token_id=0,
        eos_token_id=2, layer_types=["sliding_attention", "sliding_attention", "full_attention"],
        query_pre_attn_scalar=16, rope_parameters={
            "full_attention": FULL_ROPE, "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
        }, **(SHAPE | GQA),
    )  # fmt: skip
    names = LAYER_NAMES | {
        r"pre_feedforward_layernorm": "ffn_norm",
        r"post_feedforward_layernorm": "post_ffw_norm",
        r"post_attention_layernorm": "post_attention_norm",
    }
    model = load(hf.Gemma3TextModel(config), names, without(t, "dense"), shift=1.0)  # GGUF holds 1 + w
    first, second = (torch.from_numpy(t[f"dense_{i}.weight"]) for i in (2, 3))
    return model, None, lambda row: row @ first.T @ second.T


def qwen3(t):
    config = hf.Qwen3Config(vocab_size=len(t["token_embd.weight"]), rope_parameters=FULL_ROPE, **(SHAPE | GQA))
    names = LAYER_NAMES | {r"post_attention_layernorm": "ffn_norm"}
    model = load(hf.Qwen3Model(config), names, without(t, "cls"))
    both = torch.from_numpy(t["cls.output.weight"])
    return model, lambda ids: functional.softmax(rows_of(model, ids)[-1] @ both.T, dim=-1)[0]


class Twin:
    """Jina's BERT (ALiBi, gated GELU; https://arxiv.org/abs/2310.19923) and Nomic's with experts (RoPE, GELU, softmax
    over all experts, the best two with their weights as they are; https://arxiv.org/abs/2502.07972)."""

    def __init__(self, tensors):
        self.t = {name: torch.from_numpy(x) for name, x in tensors.items()}

    def __call__(self, ids):
        x = self.norm(self.t["token_embd.weight"][ids] + self.t["token_types.weight"][0], "token_embd_norm")
        for layer in range(3):
            x = self.layer(x, f"blk.{layer}.")
        return x

    def linear(self, x, name):
        return functional.linear(x, self.t[f"{name}.weight"], self.t.get(f"{name}.bias"))

    def norm(self, x, name):
        return functional.layer_norm(x, x.shape[-1:], self.t[f"{name}.weight"], self.t[f"{name}.bias"], 1e-5)

    def layer(self, x, at):
        h = self.norm(x + self.linear(self.attention(x, at), f"{at}attn_output"), f"{at}attn_output_norm")
        if f"{at}attn_norm_2.weight" in self.t:
            h = self.norm(x + h, f"{at}attn_norm_2")
        return self.norm(h + self.mlp(h, at), f"{at}layer_output_norm")

    def attention(self, x, at):
        stacked = f"{at}attn_qkv.weight" in self.t
        if stacked:
            q, k, v = self.linear(x, f"{at}attn_qkv").chunk(3, dim=-1)
        else:
            q, k, v = (self.linear(x, f"{at}attn_{name}") for name in "qkv")
        if f"{at}attn_q_norm.weight" in self.t:
            q, k = self.norm(q, f"{at}attn_q_norm"), self.norm(k, f"{at}attn_k_norm")
        q, k, v = (y.view(len(x), HEADS, -1).transpose(0, 1) for y in (q, k, v))
        places = torch.arange(len(x))
        if stacked:
            half = q.shape[-1] // 2
            angles = places[:, None] / 10_000.0 ** (torch.arange(half) / half)
            turn = torch.polar(torch.ones_like(angles), angles)
            q, k = (torch.complex(y[..., :half], y[..., half:]) * turn for y in (q, k))
            q, k = (torch.cat([y.real, y.imag], dim=-1) for y in (q, k))
            bias = 0.0
        else:
            slopes = torch.tensor([2.0 ** (-8 * (head + 1) / HEADS) for head in range(HEADS)])
            bias = -slopes[:, None, None] * (places[:, None] - places).abs()
        weights = functional.softmax(q @ k.transpose(1, 2) / math.sqrt(q.shape[-1]) + bias, dim=-1)
        return (weights @ v).transpose(0, 1).reshape(len(x), DIM)

    def mlp(self, x, at):
        if f"{at}ffn_gate_inp.weight" in self.t:
            chances = functional.softmax(self.linear(x, f"{at}ffn_gate_inp"), dim=-1)
            best = chances >= chances.topk(2, dim=-1).values[:, 1:]
            up, down = self.t[f"{at}ffn_up_exps.weight"], self.t[f"{at}ffn_down_exps.weight"]
            each = torch.einsum("etf,edf->etd", functional.gelu(torch.einsum("td,efd->etf", x, up)), down)
            return torch.einsum("te,etd->td", chances * best, each)
        if f"{at}ffn_gate.weight" in self.t:
            h = functional.gelu(self.linear(x, f"{at}ffn_gate")) * self.linear(x, f"{at}ffn_up")
        elif f"{at}ffn_up.bias" in self.t:
            h = functional.gelu(self.linear(x, f"{at}ffn_up"))
        else:
            gate, up = self.linear(x, f"{at}ffn_up").chunk(2, dim=-1)
            h = functional.gelu(gate) * up
        return self.linear(h, f"{at}ffn_down")

    def score(self, ids):
        return torch.tanh(self.linear(self(ids)[0], "cls"))


def twin(t):
    model = Twin(t)
    return model, model.score if "cls.weight" in t else None


MAKERS = {
    "bert": bert, "xlm-r": xlm_r, "nomic-bert": nomic_bert, "nomic-bert-moe": twin, "jina-bert-v2": twin,
    "jina-bert-v2-code": twin, "jina-bert-v3": jina_bert_v3, "modern-bert": modern_bert,
    "gemma-embedding": gemma_embedding, "qwen3": qwen3,
}  # fmt: skip


def rows_of(model, ids):
    return model(ids) if isinstance(model, Twin) else model(torch.tensor([ids])).last_hidden_state[0]


@torch.no_grad()
def golden(name):
    """Embeddings of the texts, not normalised, by the mean and by the first or (qwen3) the last row; scores of
    pairs."""
    model, score, *project = MAKERS[name](CASES[name].tensors())
    rows = [rows_of(model, ids) for ids in TEXTS]
    kind, place = ("last", -1) if name == "qwen3" else ("cls", 0)
    pooled = {"mean": [r.mean(0) for r in rows], kind: [r[place] for r in rows]}
    out = {kind: [rounded(project[0](r) if project else r) for r in each] for kind, each in pooled.items()}
    return out | ({"scores": [rounded(score(ids).reshape(1))[0] for ids in CASES[name].pairs]} if score else {})


def rounded(x):
    return [float(f"{number:.6g}") for number in x.tolist()]


if __name__ == "__main__":
    lines = [f"{json.dumps(name)}: {json.dumps(golden(name), separators=(',', ':'))}" for name in MAKERS]
    pathlib.Path(__file__).with_name("encoders.json").write_text("{" + ",\n".join(lines) + "}\n")
