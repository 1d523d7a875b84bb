"""Small random models in Hugging Face's folders, and what transformers made of them.

Weights are not kept: each is drawn anew from its name and shape, here as in `benchmarks/huggingface_golden`, which
writes the golden files.
"""

from __future__ import annotations

import json
import math
import pathlib
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

FOLDER = pathlib.Path(__file__).with_name("golden")
ENCODERS, ANSWERS = FOLDER / "encoders", FOLDER / "answers"
IDS = [1, 5, 17, 42, 3, 88, 64, 23, 9, 51, 12, 77, 30, 6, 45, 90, 2, 33, 71, 18]
VOCAB = 96
Shapes = Mapping[str, tuple[int, ...]]


def weights(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """float32: of a size that keeps every layer's part in the logits visible."""
    rng = np.random.RandomState(zlib.crc32(name.encode()))  # whose numbers never change between versions of numpy
    if name.endswith(("_blocks", "_scales")):  # of MXFP4: codes, and exponents of 2 from 127 on
        low, high = (0, 256) if name.endswith("_blocks") else (123, 126)
        return rng.randint(low, high, shape).astype(np.uint8)
    x = rng.standard_normal(shape)
    if name.endswith("A_log"):
        x = np.log1p(np.abs(2 * x))
    elif len(shape) > 1:
        x *= 1.2 / math.sqrt(shape[-1])
    else:
        x *= 0.2
        if (
            name.endswith((".D", "alpha_p", "alpha_n", "beta", "layer_scalar"))
            or ("norm" in name or "ln_" in name)
            and name.endswith("weight")
        ):
            x += 1
    return np.asarray(x, np.float32)


def write_safetensors(path: pathlib.Path, tensors: Mapping[str, np.ndarray], dtype: str = "F32") -> None:
    """One file of float32 tensors, or of others as raw numbers that `dtype` names; bytes are U8 in any case."""
    header, start = {}, 0
    for name, x in tensors.items():
        header[name] = {
            "dtype": "U8" if x.dtype == np.uint8 else dtype,
            "shape": list(x.shape),
            "data_offsets": [start, start + x.nbytes],
        }
        start += x.nbytes
    raw = json.dumps(header).encode()
    path.write_bytes(len(raw).to_bytes(8, "little") + raw + b"".join(x.tobytes() for x in tensors.values()))


def tokenizer(vocab: int = 60) -> dict[str, Any]:
    """A byte-level BPE vocabulary of `vocab` letters and signs, fewer than the models' embeddings have rows."""
    return {
        "version": "1.0",
        "added_tokens": [{"id": 0, "content": "<|endoftext|>", "special": True}],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True},
        "model": {
            "type": "BPE",
            "vocab": {"<|endoftext|>": 0} | {chr(64 + i): i for i in range(1, vocab)},
            "merges": [],
        },
    }


def write_folder(folder: pathlib.Path, config: Mapping[str, Any], shapes: Shapes) -> pathlib.Path:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer()))
    write_safetensors(folder / "model.safetensors", {name: weights(name, shape) for name, shape in shapes.items()})
    return folder


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.npz"))


def encoders() -> list[str]:
    return sorted(f"{ENCODERS.name}/{path.stem}" for path in ENCODERS.glob("*.npz"))


def answers() -> list[str]:
    return sorted(f"{ANSWERS.name}/{path.stem}" for path in ANSWERS.glob("*.npz"))


def load(name: str) -> tuple[dict[str, Any], dict[str, tuple[int, ...]], np.ndarray]:
    """config.json, the tensors' shapes, and logits f32[ids, vocab], where a text is answered of IDS
    reversed to IDS; of encoders the last rows f32[ids, dim]."""
    with np.load(FOLDER / f"{name}.npz") as file:
        shapes = {key: tuple(shape) for key, shape in json.loads(str(file["shapes"])).items()}
        return json.loads(str(file["config"])), shapes, file["rows" if "rows" in file else "logits"]


def score(name: str) -> float | None:
    """What a model made to rank gives for IDS."""
    with np.load(FOLDER / f"{name}.npz") as file:
        return float(file["score"][0]) if "score" in file else None
