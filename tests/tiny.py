"""Tiny random models: GGUF files of a few hundred kB of any architecture and tensor type, with a small vocabulary.

`write` makes the file; weights are scaled so that logits have a deviation of about 2 and greedy text stays lively.
"""

from __future__ import annotations

import pathlib
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import gguf
import numpy as np

from edgeinfer.formats import dequantize
from edgeinfer.formats.ggml import GgmlType
from tests.blocks import put_scales

VOCAB = 300
EMBED_GAIN = 0.2  # small, or tied models would repeat the last token for ever
PLAIN_SHAPE = {"layers": 2, "dim": 64, "heads": 4, "kv_heads": 2, "key_dim": 16, "value_dim": 16, "ff_dim": 96}
K_SHAPE = {"layers": 2, "dim": 256, "heads": 8, "kv_heads": 2, "key_dim": 32, "value_dim": 32, "ff_dim": 512}
ARCH_SHAPE: dict[str, dict[str, int]] = {"llama": {}, "qwen2": {}, "qwen3": {}, "gemma3": {"layers": 3}}

MADE_BY_GGUF = "F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 TQ1_0 TQ2_0 MXFP4".split()  # all others are random blocks
MEAN_CODES = {"Q2_K": 1.5, "Q4_K": 7.5, "Q5_K": 15.5}  # of random blocks with minimums

MERGES = (
    "Ġ t,h e,Ġt he,Ġ a,Ġ i,Ġ s,Ġ r,i n,e n,Ġt o,e r,Ġa n,Ġ w,Ġ o,Ġ b,o w,o r,d e,Ġi s,Ġan d,Ġ m,Ġ l,Ġ c,Ġc o,v er,r e,"
    "a s,Ġto k,Ġtok en,Ġs e,Ġr e,Ġo f,Ġl in,Ġlin e,Ġi t,Ġi n,Ġa d,Ġad d,Ġ p,Ġ f,l l"
).split(",")
PIECES = [*"▁t he ▁the ▁a ▁i in en er ▁to or ▁an ▁is ▁w ▁o".split(), *"▁etnoisrahdlmfbguvcykpwxjzq"]

Keys = dict[str, Any]
Tensors = dict[str, tuple[np.ndarray, str]]  # f32 values and the type to store them in
Edit = Callable[[Keys, Tensors], None]


def write(
    path: str | pathlib.Path,
    arch: str = "llama",
    types: str | Mapping[str, str] = "F32",
    *,
    vocab: str = "bpe",
    tied: bool = False,
    bias: bool | None = None,
    seed: int = 0,
    edit: Edit | None = None,
    **shape: int,
) -> pathlib.Path:
    """Write a model to `path` and return it.

    `types` is the type of all matrices, or types by tensor name without blk.N. and .weight, "" for all others:
    {"token_embd": "Q6_K", "": "Q4_K"}.  `shape` overrides sizes (layers dim heads kv_heads key_dim value_dim ff_dim
    context window).  `vocab` is "bpe" or "spm".  `bias` gives every linear one; None means as the architecture has.
    `edit(keys, tensors)` may change what is written: keys by full name, tensors as name -> (float32 array, type).
    """
    by_name = {"": types} if isinstance(types, str) else dict(types)
    base = K_SHAPE if any(GgmlType[kind].block > 32 for kind in by_name.values()) else PLAIN_SHAPE
    sizes = {"context": 256, "window": 8} | base | ARCH_SHAPE[arch] | shape
    keys = _keys(arch, sizes) | {"bpe": bpe, "spm": spm}[vocab]()
    tensors: Tensors = {}
    for name, dims in _tensors(arch, sizes, tied, arch == "qwen2" if bias is None else bias).items():
        stem = name.removesuffix(".weight").split(".")[-1]
        kind = by_name.get(stem, by_name.get("", "F32")) if len(dims) == 2 else "F32"
        rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
        tensors[name] = (_values(rng, name, dims, tied), kind)
    if edit:
        edit(keys, tensors)
    save(pathlib.Path(path), keys, tensors, seed)
    return pathlib.Path(path)


def _keys(arch: str, s: Mapping[str, int]) -> Keys:
    keys: Keys = {
        "context_length": s["context"],
        "embedding_length": s["dim"],
        "block_count": s["layers"],
        "feed_forward_length": s["ff_dim"],
        "attention.head_count": s["heads"],
        "attention.head_count_kv": s["kv_heads"],
        "attention.key_length": s["key_dim"],
        "attention.value_length": s["value_dim"],
        "attention.layer_norm_rms_epsilon": 1e-5,
        "rope.freq_base": 10_000.0,
    }
    if arch == "gemma3":
        keys |= {"attention.sliding_window": s["window"], "attention.sliding_window_pattern": 3}
    return {"general.architecture": arch, "general.name": f"tiny {arch}"} | {f"{arch}.{k}": v for k, v in keys.items()}


def _tensors(arch: str, s: Mapping[str, int], tied: bool, bias: bool) -> dict[str, tuple[int, ...]]:
    """Shapes by name."""
    dim = s["dim"]
    linears = {
        "attn_q": (s["heads"] * s["key_dim"], dim),
        "attn_k": (s["kv_heads"] * s["key_dim"], dim),
        "attn_v": (s["kv_heads"] * s["value_dim"], dim),
        "attn_output": (dim, s["heads"] * s["value_dim"]),
        "ffn_gate": (s["ff_dim"], dim),
        "ffn_up": (s["ff_dim"], dim),
        "ffn_down": (dim, s["ff_dim"]),
    }
    norms = {"attn_norm": dim, "ffn_norm": dim}
    if arch in ("qwen3", "gemma3"):
        norms |= {"attn_q_norm": s["key_dim"], "attn_k_norm": s["key_dim"]}
    if arch == "gemma3":
        norms |= {"post_attention_norm": dim, "post_ffw_norm": dim}
    with_bias = linears if arch != "qwen2" else ("attn_q", "attn_k", "attn_v")
    tensors: dict[str, tuple[int, ...]] = {"token_embd.weight": (VOCAB, dim), "output_norm.weight": (dim,)}
    if not tied:
        tensors["output.weight"] = (VOCAB, dim)
    for layer in range(s["layers"]):
        tensors |= {f"blk.{layer}.{name}.weight": shape for name, shape in linears.items()}
        tensors |= {f"blk.{layer}.{name}.weight": (width,) for name, width in norms.items()}
        tensors |= {f"blk.{layer}.{name}.bias": linears[name][:1] for name in with_bias if bias}
    return tensors


def bpe() -> Keys:
    """All bytes, 41 merges and 3 control tokens: <|endoftext|> 297, <|im_start|> 298, <|im_end|> 299."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]  # bytes that GPT-2 shows as themselves
    hidden = [byte for byte in range(256) if byte not in shown]
    byte_tokens = [chr(byte if byte in shown else 256 + hidden.index(byte)) for byte in range(256)]
    merged = [merge.replace(" ", "") for merge in MERGES]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": [*byte_tokens, *merged, "<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        "tokenizer.ggml.token_type": [1] * (VOCAB - 3) + [3] * 3,
        "tokenizer.ggml.merges": MERGES,
        "tokenizer.ggml.eos_token_id": 297,
        "tokenizer.ggml.add_bos_token": False,
    }


def spm() -> Keys:
    """<unk>, <s> 1, </s> 2, all bytes, then 41 pieces."""
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.tokens": ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *PIECES],
        "tokenizer.ggml.scores": [0.0] * 259 + [-float(i) for i in range(len(PIECES))],
        "tokenizer.ggml.token_type": [2, 3, 3] + [6] * 256 + [1] * len(PIECES),
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.add_bos_token": True,
        "tokenizer.ggml.add_eos_token": False,
    }


def _values(rng: np.random.Generator, name: str, shape: tuple[int, ...], tied: bool) -> np.ndarray:
    x = rng.standard_normal(shape, dtype=np.float32)
    if name.endswith(".bias"):
        return 0.2 * x
    if len(shape) == 1:
        return 0.2 * x + (2 / EMBED_GAIN if tied and name == "output_norm.weight" else 1)
    gain = {"output.weight": 2.0, "token_embd.weight": EMBED_GAIN}.get(name, 1.3)
    return x * np.float32(gain / shape[1] ** 0.5)


def encode(x: np.ndarray, kind: str, seed: int = 0) -> np.ndarray:
    """uint8[rows, row bytes] in type `kind`: `x` f32[rows, cols] rounded, or random blocks as spread as `x`."""
    if kind in ("F64", "I32"):
        return x.astype("<f8" if kind == "F64" else "<i4").view(np.uint8)
    if kind in MADE_BY_GGUF:
        blocks = gguf.quants.quantize(x, gguf.GGMLQuantizationType[kind])
        return blocks.view(np.uint8).reshape(len(x), -1)
    rng = np.random.default_rng([seed, x.size])
    sizes = GgmlType[kind]
    blocks = rng.integers(0, 256, (x.size // sizes.block, sizes.bytes), dtype=np.uint8)
    scales = rng.uniform(0.7, 1.3, len(blocks)).astype(np.float32)
    minimums = [MEAN_CODES[kind]] if kind in MEAN_CODES else []
    put_scales(blocks, kind, *(scales * factor for factor in [1.0, *minimums]))
    unit = float(x.std() / dequantize(blocks, kind).std())
    put_scales(blocks, kind, *(scales * unit * factor for factor in [1.0, *minimums]))
    return blocks.reshape(len(x), -1)


def save(path: pathlib.Path, keys: Keys, tensors: Tensors, seed: int = 0) -> None:
    """Write these keys, general.architecture among them, and tensors."""
    writer = gguf.GGUFWriter(path, keys.pop("general.architecture"))
    for key, value in keys.items():
        kind = gguf.GGUFValueType.get_type(value)
        is_count = kind == gguf.GGUFValueType.INT32 and value >= 0
        writer.add_key_value(key, value, gguf.GGUFValueType.UINT32 if is_count else kind)
    for index, (name, (x, kind)) in enumerate(tensors.items()):
        if kind == "F32":
            writer.add_tensor(name, np.ascontiguousarray(x, np.float32))
        else:
            number = GgmlType[kind]
            gguf.GGML_QUANT_SIZES.setdefault(number, (number.block, number.bytes))  # of types younger than the package
            writer.add_tensor(name, encode(x, kind, seed + index), raw_dtype=number)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
