"""Tokenizers: text to ids and back, and text from ids as they come."""

from edgeinfer.tokenizer.stream import TextStream
from edgeinfer.tokenizer.tokenizer import Tokenizer

__all__ = ["TextStream", "Tokenizer"]
