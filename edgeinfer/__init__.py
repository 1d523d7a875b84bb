"""edgeinfer: runs GGUF language models on the CPU.  `LLM(path).generate(prompt)` is the way in.

Everything is imported when it is first used: `import edgeinfer` alone loads none of its parts."""

import os.path
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgeinfer import chat, errors, formats
    from edgeinfer.embedding import Ranked
    from edgeinfer.generate import Chunk, Completion, Timings, Usage
    from edgeinfer.llm import LLM
    from edgeinfer.sampling_params import SamplingParams
    from edgeinfer.tokenizer import Tokenizer

if not os.path.isdir(os.path.join(__path__[0], "formats")):  # a checkout: the other folders lie beside this one
    __path__.append(os.path.dirname(__path__[0]))

__version__ = "0.1.0"
__all__ = [
    "LLM",
    "Chunk",
    "Completion",
    "Ranked",
    "SamplingParams",
    "Timings",
    "Tokenizer",
    "Usage",
    "chat",
    "errors",
    "formats",
]

_HOMES = {
    "LLM": "llm",
    "Chunk": "generate",
    "Completion": "generate",
    "Ranked": "embedding",
    "SamplingParams": "sampling_params",
    "Timings": "generate",
    "Tokenizer": "tokenizer",
    "Usage": "generate",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'edgeinfer' has no attribute {name!r}")
    module = import_module(f"edgeinfer.{_HOMES.get(name, name)}")
    return getattr(module, name) if name in _HOMES else module


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
