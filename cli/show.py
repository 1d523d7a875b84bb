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
    from edgeinfer.plan import Plan

N_BATCH = 512  # tokens of a step, as `edgeinfer run` takes them
CONTEXTS = (512, 2048, 8192, 32_768, 131_072)  # tokens the memory is stated for, as far as the model goes


def command(
    model: Annotated[str, typer.Argument(help="A GGUF file, a Hugging Face folder or a pulled model's name.")],
    ctx: Annotated[int | None, typer.Option(min=1, help="Context the memory is stated for; else the model's.")] = None,
    kv_type: Annotated[str, typer.Option(help="Type of K and V in memory: f32, f16 or q8_0.")] = "f16",
    override: Override = None,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object instead of lines.")] = False,
) -> None:
    """Show what a model file holds and needs."""
    from edgeinfer import files
    from edgeinfer.formats.cursor import printable

    with files.open(catalog.resolve(model, fetch=False), parsed(override)) as file:
        facts = {**_file(file), **_text(file), **_run(file, ctx, kv_type)}
    if as_json:
        print(json.dumps(facts, indent=2))
        return
    for key, value in _lines(facts).items():
        print(f"{key:14} {printable(value)}")


def _file(file: "GgufFile") -> dict[str, Any]:
    """What is stored: name, sizes in bytes and elements, tensors of each type and their bytes."""
    types = collections.Counter(tensor.type.name for tensor in file.tensors.values())
    sizes: collections.Counter[str] = collections.Counter()
    for tensor in file.tensors.values():
        sizes[tensor.type.name] += tensor.nbytes
    elements = sum(math.prod(tensor.shape) for tensor in file.tensors.values())
    bits = 8 * sizes.total() / max(elements, 1)
    return {
        "file": file.path,
        "name": file.get("general.name", str, None),
        "bytes": file.size,
        "parameters": elements,
        "bits_per_weight": round(bits, 2),
        "tensors": dict(types.most_common()),
        "bytes_by_type": {name: sizes[name] for name, _ in types.most_common()},
        "licence": _licence(file),
    }


def _licence(file: "GgufFile") -> str | None:
    """As the file states it, else as the catalog does for its own files."""
    known = {str(entry.path): entry.licence for entry in catalog.entries()}
    return file.get("general.license", str, known.get(file.path))


def _text(file: "GgufFile") -> dict[str, Any]:
    """The text side: vocabulary and chat template, with what that can do."""
    from edgeinfer import capabilities, chat

    template = "tokenizer.chat_template" in file.metadata
    return {
        "tokenizer": file.get("tokenizer.ggml.model", str, None),
        "pre_tokenizer": file.get("tokenizer.ggml.pre", str, None),
        "vocabulary": file.count("tokenizer.ggml.tokens", str, 0),
        "chat_template": template,
        "capabilities": capabilities.of(chat.template_of(file.metadata), bos_token="", eos_token="")
        if template
        else [],
    }


def _run(file: "GgufFile", ctx: int | None, kv_type: str) -> dict[str, Any]:
    """Architecture, bytes a token reads and memory at contexts, and what stops edgeinfer from running the model."""
    from edgeinfer import cost, memory, plan

    try:
        traced = plan.trace(file, ctx)
    except RequestError:
        raise
    except EdgeInferError as error:
        return {"architecture": file.get("general.architecture", str, None), "cannot_run": _reason(file, error)}
    config = traced.config
    context = memory.context(traced, ctx or config.context, kv_type, N_BATCH)
    facts: dict[str, Any] = {
        "architecture": config.arch,
        "layers": config.layers,
        "width": config.dim,
        "heads": config.heads,
        "kv_heads": config.kv_heads,
        "context": config.context,
        "pooling": traced.pooling,
        "answers": traced.reader is not None,
        "bytes_per_token": cost.weight_bytes(traced),
        "memory": _memory(traced, context, kv_type),
        "memory_by_context": [_memory(traced, n, kv_type) for n in sorted({*CONTEXTS, context}) if n <= context],
    }
    reason = _obstacle(file, facts["memory"])
    return {**facts, "cannot_run": reason} if reason else facts


def _reason(file: "GgufFile", error: EdgeInferError) -> str:
    """The error's text without the file's name, which is shown above."""
    return str(error).removeprefix(f"{file.path}: ")


def _memory(plan: "Plan", context: int, kv_type: str) -> dict[str, Any]:
    """In bytes, of one sequence of so many tokens."""
    from edgeinfer import memory, screen

    return {
        "context": context,
        "kv_type": kv_type,
        "kv_bytes": memory.kv_bytes(plan, kv_type, context, N_BATCH),
        "buffer_bytes": memory.buffer_bytes(plan, N_BATCH, context),
        "view_bytes": screen.view_bytes(plan),
    }


def _obstacle(file: "GgufFile", need: dict[str, Any]) -> str:
    """Why a model with a sound plan does not run here, or nothing."""
    from edgeinfer import machine
    from edgeinfer.tokenizer import Tokenizer

    try:
        Tokenizer.from_gguf(file)
    except EdgeInferError as error:
        return _reason(file, error)
    wanted, available = need["kv_bytes"] + need["buffer_bytes"], machine.available_memory()
    if wanted > available:
        return (
            f"a context of {need['context']} tokens needs {wanted / 1e6:,.0f} MB beside the file, and "
            f"{available / 1e6:,.0f} MB are available here (--ctx gives a smaller one)"
        )
    return ""


def _lines(facts: dict[str, Any]) -> dict[str, str]:
    """The facts in words, by what stands before them."""
    sizes = facts["bytes_by_type"]
    tensors = ", ".join(f"{count} {name} ({sizes[name] / 1e6:.1f} MB)" for name, count in facts["tensors"].items())
    lines = {
        "file": f"{facts['file']} ({facts['bytes'] / 1e6:.1f} MB)",
        "name": facts["name"] or "not stated",
        "parameters": f"{facts['parameters'] / 1e6:.1f} million, {facts['bits_per_weight']} bits each",
        "tensors": tensors,
        "licence": facts["licence"] or "not stated",
        "tokenizer": f"{facts['tokenizer']} ({facts['pre_tokenizer']}), {facts['vocabulary']} tokens",
        "chat template": _template(facts),
        "architecture": facts["architecture"] or "not stated",
    }
    stop = {"cannot run": facts["cannot_run"]} if "cannot_run" in facts else {}
    if "memory" not in facts:
        return lines | stop
    need = facts["memory"]
    lines["architecture"] += "; layers {layers}, width {width}, heads {heads}, K and V heads {kv_heads}".format(**facts)
    if facts["pooling"]:
        lines["made to"] = "rank texts" if facts["pooling"] == "rank" else f"embed texts ({facts['pooling']} pooling)"
        del lines["chat template"]
    if facts["answers"]:
        lines["made to"] = "read a text as a whole and answer it (encoder and decoder)"
        lines["chat template"] = lines["chat template"].replace("continues", "answers")
    lines["context"] = f"{facts['context']} tokens"
    lines["each token"] = f"reads {facts['bytes_per_token'] / 1e6:.1f} MB of weights"
    lines["memory"] = (
        f"at {need['context']} tokens: KV in {need['kv_type']} {need['kv_bytes'] / 1e6:.1f} MB, "
        f"buffers {need['buffer_bytes'] / 1e6:.1f} MB, weights {facts['bytes'] / 1e6:.1f} MB from the file"
    )
    if need["view_bytes"]:
        lines["memory"] += f", view of the output matrix {need['view_bytes'] / 1e6:.1f} MB"
    others = [f"{one['kv_bytes'] / 1e6:.1f} MB at {one['context']}" for one in facts["memory_by_context"][:-1]]
    return lines | ({"KV": ", ".join(others)} if others else {}) | stop


def _template(facts: dict[str, Any]) -> str:
    if not facts["chat_template"]:
        return "no: it continues texts"
    return ", ".join(facts["capabilities"]) or "yes, but it does not render a message"
