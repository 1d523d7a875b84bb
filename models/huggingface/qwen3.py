"""Qwen3: the usual names; and rerankers, whose score is the logit of "yes" less that of "no", or has a matrix."""

import numpy as np

from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer

ARCH = "qwen3"
CLASSES = ("Qwen3ForCausalLM", "Qwen3Model", "Qwen3ForSequenceClassification")
PREFIX = "model."
RERANK = (  # how a pair is written, by the model card of Qwen3-Reranker
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
    'provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n<Instruct>: Given a web '
    "search query, retrieve relevant passages that answer the query\n<Query>: {query}\n<Document>: {document}"
    "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
)


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    usual.lose_window(w)
    usual.decoder(w)
    if w.has("score.weight"):
        score = usual.score(w, "score")
        rank(w, score, np.zeros_like(score))  # the logit of "no" is part of it
    elif w.answers:
        tied = w.config.flag("tie_word_embeddings", default=False) or not w.has("lm_head.weight")
        matrix = w.take("model.embed_tokens.weight" if tied else "lm_head.weight")
        rank(w, *(matrix[id : id + 1] for id in w.answers))


def rank(w: Writer, yes: np.ndarray, no: np.ndarray) -> None:
    """Both rows of the output matrix."""
    w.put("cls.output.weight", yes, no)
    w.key("pooling_type", usual.RANK)
    w.key("classifier.output_labels", ["yes", "no"])
    w.pairs["tokenizer.chat_template.rerank"] = RERANK
