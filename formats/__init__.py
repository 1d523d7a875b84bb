"""What the bytes of model files mean: GGUF, tensor types, block layouts.  Needs numpy only."""

from edgeinfer.formats import ggml, gguf
from edgeinfer.formats.dequantize import dequantize

__all__ = ["dequantize", "ggml", "gguf"]
