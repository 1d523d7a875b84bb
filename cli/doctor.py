"""`edgeinfer doctor`: what this machine is, what edgeinfer makes of it, and what stands in its way."""

import glob
import json
import os
import platform
import sys
from pathlib import Path
from typing import Annotated

import typer

from edgeinfer.errors import EdgeInferError
from edgeinfer.models import catalog

PACKAGES = ("edgeinfer", "numpy", "llvmlite", "tokenizers", "sentencepiece", "jinja2", "gguf", "typer")

Fact = str | int | list[str]
Facts = dict[str, Fact]


def command(as_json: Annotated[bool, typer.Option("--json", help="A JSON object instead of lines.")] = False) -> None:
    """Show versions, machine, kernels and folders.  Exit code 1 if anything keeps models from running."""
    facts = {
        "versions": _versions(),
        "machine": _machine(),
        "kernels": _kernels(),
        "limits": _limits(),
        "onnx": _providers(),
        "models": _models(),
    }
    if as_json:
        print(json.dumps(facts, indent=2))
    else:
        for part, values in facts.items():
            print(f"{part}:")
            for key, value in values.items():
                print(f"  {key.replace('_', ' '):18} {_shown(key, value)}")
    if any("problem" in values for values in facts.values()):
        raise typer.Exit(EdgeInferError.exit_code)


def _shown(key: str, value: Fact) -> str:
    """A value in words."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and "memory" in key:
        return f"{value / 1e6:,.0f} MB"
    return " ".join(value) if isinstance(value, list) else str(value)


def _versions() -> Facts:
    """Of Python and of the packages that matter."""
    from importlib.metadata import PackageNotFoundError, version

    versions: Facts = {"python": platform.python_version(), "executable": sys.executable}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "missing"
    return versions


def _machine() -> Facts:
    """The hardware, and what of it this process may use; memory in bytes."""
    import psutil

    from edgeinfer import machine

    return {
        "system": platform.platform(),
        "cpu": machine.cpu_name(),
        "cores": psutil.cpu_count(logical=False) or 0,
        "threads_used": machine.cores(),
        "memory": psutil.virtual_memory().total,
        "memory_available": machine.available_memory(),
        "caches": ", ".join(machine.caches()) or "not shown by the system",
        "temperature": ", ".join(machine.temperatures()) or "not shown by the system",
    }


def _kernels() -> Facts:
    """The tier of kernels that runs here and why, or what keeps them from running."""
    try:
        from edgeinfer.simd_kernels import cpu, pack

        host = cpu.host()
    except (EdgeInferError, ImportError) as error:
        return {"problem": str(error)}
    folder = pack.Pack(host.tier, catalog.home() / "kernels").folder
    return {
        "tier": host.tier.name,
        "reason": host.reason,
        "features": list(host.features),
        "folder": str(folder),
        "writable": _writable(folder),
        "built": len(glob.glob("*.o", root_dir=folder)),
    }


def _limits() -> Facts:
    """What the machine can do, measured now: the limits of decode (reading) and of prefill (8-bit products)."""
    try:
        from edgeinfer import machine, measure

        probes = {n: measure.Probe(n) for n in sorted({1, machine.cores()})}
        reading = {f"read_{n}_threads": f"{probe.read_bandwidth() / 1e9:.1f} GB/s" for n, probe in probes.items()}
        peaks = {f"products_{n}_threads": f"{probe.dot_peak() / 1e9:.0f} GMAC/s" for n, probe in probes.items()}
        return {**reading, **peaks}
    except (EdgeInferError, ImportError) as error:
        return {"problem": str(error)}


def _providers() -> Facts:
    """What ONNX Runtime could run layers on."""
    try:
        import onnxruntime
    except ImportError:
        return {"execution_providers": "none: onnxruntime is not installed"}
    return {"execution_providers": list(onnxruntime.get_available_providers())}


def _models() -> Facts:
    """The store of models: where it is, whether it can be written, what is in it."""
    return {
        "folder": str(catalog.store()),
        "writable": _writable(catalog.store()),
        "installed": [entry.name for entry in catalog.entries() if entry.stored],
    }


def _writable(folder: Path) -> bool:
    """Whether files can be put into `folder`, which may have to be made first."""
    here = next(path for path in (folder, *folder.parents) if os.path.exists(path))
    return here.is_dir() and os.access(here, os.W_OK | os.X_OK)
