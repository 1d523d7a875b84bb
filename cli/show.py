"""`edgeinfer show MODEL`: what a model file is and what running it takes, without running it."""

import collections
import json
import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgeinfer.cli.override import Override, parsed
from edgeinfer.errors import EdgeInferError, RequestError
from edgeinfer.models import catalog

if TYPE_CHECKING:
    from edgeinfer.formats.gguf import GgufFile

N_BATCH = 512  # tokens of a step, as `edgeinfer run` takes them


def command(
    model: Annotated[str, typer.Argument(help="A GGUF file or a pulled model's name.")],
    ctx: Annotated[int | None, typer.Option(min=1, help="Context the memory is stated for; else the model's.")] = None,
    kv_type: Annotated[str, typer.Option(help="Type of K and V in memory: f32, f16 or q8_0.")] = "f16",
    override: Override = None,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object instead of lines.")] = False,
) -> None:
    """Show what a model file holds and needs."""
    from edgeinfer.formats import gguf

    with gguf.open(catalog.resolve(model, fetch=False), parsed(override)) as file:
        facts = {**_file(file), **_text(file), **_run(file, ctx, kv_type)}
    if as_json:
        print(json.dumps(facts, indent=2))
        return
    for key, value in _lines(facts).items():
        print(f"{key:14} {value}")


def _file(file: "GgufFile") -> dict[str, Any]:
    """What is stored: name, sizes in bytes and elements, tensors of each type."""
    types = collections.Counter(tensor.type.name for tensor in file.tensors.values())
    elements = sum(math.prod(tensor.shape) for tensor in file.tensors.values())
    bits = 8 * sum(tensor.nbytes for tensor in file.tensors.values()) / max(elements, 1)
    return {
        "file": file.path,
        "name": file.get("general.name", str, None),
        "bytes": file.size,
        "parameters": elements,
        "bits_per_weight": round(bits, 2),
        "tensors": dict(types.most_common()),
        "licence": _licence(file),
    }


def _licence(file: "GgufFile") -> str | None:
    """As the file states it, else as the catalog does for its own files."""
    known = {str(entry.path): entry.licence for entry in catalog.entries()}
    return file.get("general.license", str, known.get(file.path))


def _text(file: "GgufFile") -> dict[str, Any]:
    """The text side: vocabulary and chat template."""
    return {
        "tokenizer": file.get("tokenizer.ggml.model", str, None),
        "pre_tokenizer": file.get("tokenizer.ggml.pre", str, None),
        "vocabulary": file.count("tokenizer.ggml.tokens", str, 0),
        "chat_template": "tokenizer.chat_template" in file.metadata,
    }


def _run(file: "GgufFile", ctx: int | None, kv_type: str) -> dict[str, Any]:
    """Architecture and memory in bytes at a context, or the reason why edgeinfer cannot run the model."""
    from edgeinfer import memory, plan

    try:
        traced = plan.trace(file, ctx)
    except RequestError:
        raise
    except EdgeInferError as error:
        return {"architecture": file.get("general.architecture", str, None), "cannot_run": str(error)}
    config = traced.config
    context = min(ctx or config.context, config.context)
    return {
        "architecture": config.arch,
        "layers": config.layers,
        "width": config.dim,
        "heads": config.heads,
        "kv_heads": config.kv_heads,
        "context": config.context,
        "memory": {
            "context": context,
            "kv_type": kv_type,
            "kv_bytes": memory.kv_bytes(traced, kv_type, context, N_BATCH),
            "buffer_bytes": memory.buffer_bytes(traced, N_BATCH),
        },
    }


def _lines(facts: dict[str, Any]) -> dict[str, str]:
    """The facts in words, by what stands before them."""
    tensors = ", ".join(f"{count} {name}" for name, count in facts["tensors"].items())
    lines = {
        "file": f"{facts['file']} ({facts['bytes'] / 1e6:.1f} MB)",
        "name": facts["name"] or "not stated",
        "parameters": f"{facts['parameters'] / 1e6:.1f} million, {facts['bits_per_weight']} bits each",
        "tensors": tensors,
        "licence": facts["licence"] or "not stated",
        "tokenizer": f"{facts['tokenizer']} ({facts['pre_tokenizer']}), {facts['vocabulary']} tokens",
        "chat template": "yes" if facts["chat_template"] else "no: it continues texts",
        "architecture": facts["architecture"] or "not stated",
    }
    if "cannot_run" in facts:
        return lines | {"cannot run": facts["cannot_run"]}
    need = facts["memory"]
    lines["architecture"] += "; layers {layers}, width {width}, heads {heads}, K and V heads {kv_heads}".format(**facts)
    lines["context"] = f"{facts['context']} tokens"
    lines["memory"] = (
        f"at {need['context']} tokens: KV in {need['kv_type']} {need['kv_bytes'] / 1e6:.1f} MB, "
        f"buffers {need['buffer_bytes'] / 1e6:.1f} MB, weights {facts['bytes'] / 1e6:.1f} MB from the file"
    )
    return lines
