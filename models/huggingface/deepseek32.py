"""DeepSeek V3.2: DeepSeek V3's names, and those of the indexer."""

from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer
from edgeinfer.models.huggingface import deepseek2

ARCH = "deepseek32"
CLASSES = ("DeepseekV32ForCausalLM",)
INDEXER = {
    "indexer.attn_k": "self_attn.indexer.wk",
    "indexer.attn_q_b": "self_attn.indexer.wq_b",
    "indexer.k_norm": "self_attn.indexer.k_norm",
    "indexer.proj": "self_attn.indexer.weights_proj",
}


def write(w: Writer) -> None:
    deepseek2.write(w)
    indexer(w)
    for _ in w.layers(usual.layers(w)):
        w.copy(INDEXER)


def indexer(w: Writer) -> None:
    w.key("attention.indexer.head_count", w.config.integer("index_n_heads"))
    w.key("attention.indexer.key_length", w.config.integer("index_head_dim"))
    w.key("attention.indexer.top_k", w.config.integer("index_topk"))
