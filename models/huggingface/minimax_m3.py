"""MiniMax M3, text: Mixtral's names of the experts; norm weights are what is to be added to 1."""

from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer
from edgeinfer.models.huggingface import llama
from edgeinfer.models.minimax_m3 import INDEXER

ARCH = "minimax-m3"
CLASSES = ("MiniMaxM3SparseForConditionalGeneration",)
DEFAULTS = {"rope_theta": 5e6, "rotary_dim": 64, "norm_topk_prob": True, "routed_scaling_factor": 2.0}
NORMS = {**usual.NORMS, "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm"}
PICKS = {f"indexer.{name}": f"self_attn.index_{name}" for name in INDEXER}
SWISH = {"swiglu_alpha": 1.702, "swiglu_limit": 7.0}  # of GGUF's activation, which has no keys
SHARED = "block_sparse_moe.shared_experts"
NUMBERS = {  # by names of the model, and by those that its part of sparse attention has
    "head_count": ("index_n_heads", "sparse_num_index_heads"),
    "key_length": ("index_head_dim", "sparse_index_dim"),
    "top_k": ("index_topk_blocks", "sparse_topk_blocks"),
    "block_size": ("index_block_size", "sparse_block_size"),
    "local_blocks": ("index_local_blocks", "sparse_local_block"),
}


def write(w: Writer) -> None:
    check(w)
    w.copy({"output_norm": "model.norm"}, usual.one_more)
    usual.begin(w, share=w.config.integer("rotary_dim") / usual.head_dim(w))
    width = usual.ff_dim(w)
    w.key("feed_forward_length", w.config.integer("dense_intermediate_size"))
    w.key("expert_feed_forward_length", width)
    part = w.config.part("sparse_attention_config")
    for name, (here, there) in NUMBERS.items():
        w.key(f"attention.indexer.{name}", w.config.integer(here) if w.config.has(here) else part.integer(there))
    count, dense = usual.routed(w), 0
    for _ in w.layers(usual.layers(w)):
        norms = NORMS | {name: source for name, source in PICKS.items() if name.endswith("norm")}
        w.copy(norms, usual.one_more)
        w.copy({**usual.ATTENTION, **PICKS, **usual.MLP})
        usual.sparse(w, count, "block_sparse_moe", table=llama.EXPERTS)
        if w.has(f"{SHARED}.up_proj.weight"):
            shared = len(w.take(f"{SHARED}.up_proj.weight"))
            w.key("expert_shared_count", max(1, shared // width))
            w.key("expert_shared_feed_forward_length", shared)
        dense += not w.has("block_sparse_moe.gate.weight")
    w.key("leading_dense_block_count", dense)


def check(w: Writer) -> None:
    for name, value in SWISH.items():
        usual.expect(w, name, value)
