"""openvino-genai as a peer of versus.py, by the times it reports itself."""

import numpy as np
import openvino as ov
import openvino_genai as genai
from turns import DEPTH, MODEL, THREADS, ids, serve

pipeline = genai.LLMPipeline(MODEL, "CPU", INFERENCE_NUM_THREADS=THREADS)


def run(prompt: int, tokens: int) -> genai.RawPerfMetrics:
    settings = genai.GenerationConfig()
    settings.max_new_tokens = settings.min_new_tokens = tokens
    settings.do_sample, settings.ignore_eos = False, True
    text = ov.Tensor(np.array([ids(prompt)], np.int64))
    inputs = genai.TokenizedInputs(text, ov.Tensor(np.ones((1, prompt), np.int64)))
    return pipeline.generate(inputs, settings).perf_metrics.raw_metrics


def decode(tokens: int) -> float:
    return sum(list(run(DEPTH, tokens + 1).m_durations)[-tokens:]) / 1e6


def prefill(tokens: int) -> float:
    return float(run(tokens, 1).m_times_to_first_token[0]) / 1e6


serve(decode, prefill)
