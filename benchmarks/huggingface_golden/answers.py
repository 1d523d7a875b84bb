"""Models that read a text and answer it."""

from __future__ import annotations

from benchmarks.huggingface_golden.encoders import T5
from benchmarks.huggingface_golden.settings import Cases

GATED = {**T5, "feed_forward_proj": "gated-gelu", "decoder_start_token_id": 0}
UNTIED = {**GATED, "tie_word_embeddings": False}

CASES: Cases = {
    "t5-answers": ("T5ForConditionalGeneration", {**T5, "num_decoder_layers": 2}),
    "t5-answers-untied": ("T5ForConditionalGeneration", {**UNTIED, "num_decoder_layers": 4}),
    "mt5": ("MT5ForConditionalGeneration", GATED),
    "umt5-untied": ("UMT5ForConditionalGeneration", UNTIED),
}
