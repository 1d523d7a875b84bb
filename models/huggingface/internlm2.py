"""InternLM 2: names of its own; Q, K and V of the heads that share K and V lie together, as do such groups; GGUF's RoPE
turns adjacent pairs."""

from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer

ARCH = "internlm2"
CLASSES = ("InternLM2ForCausalLM",)
MODEL = {"token_embd": "model.tok_embeddings", "output_norm": "model.norm", "output": "output"}
LAYER = {
    "attn_norm": "attention_norm",
    "ffn_norm": "ffn_norm",
    "attn_output": "attention.wo",
    "ffn_gate": "feed_forward.w1",
    "ffn_up": "feed_forward.w3",
    "ffn_down": "feed_forward.w2",
}


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    usual.begin(w, model=MODEL)
    groups, size = usual.kv_heads(w), usual.head_dim(w)
    for _ in w.layers(usual.layers(w)):
        w.copy(LAYER)
        for ending in ("weight", "bias"):
            if w.has(f"attention.wqkv.{ending}"):
                both = w.take(f"attention.wqkv.{ending}")
                heads = both.reshape(groups, -1, 2, size // 2, *both.shape[1:])
                turned = heads.swapaxes(2, 3)  # halves of a head as adjacent pairs
                for name, x in (("q", turned[:, :-2]), ("k", turned[:, -2:-1]), ("v", heads[:, -1:])):
                    w.put(f"attn_{name}.{ending}", x, shape=(x.shape[0] * x.shape[1] * size, *both.shape[1:]))
