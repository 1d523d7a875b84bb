"""Models whose answers are known: a llama of one block that does nothing is a Markov chain.

Each token's embedding is one-hot; the RMS norm makes it sqrt(dim) high, so with output.weight = table.T / sqrt(dim) the
logits after token t are table[t]."""

import gguf
import numpy as np

BYTES = 3  # id of the token of byte 0; before it come <unk>, <s>, </s>
FIRST = BYTES + 256  # id of the first of a model's own tokens
BOS, EOS = 1, 2
STRONG = 20.0  # logit of a step that is all but certain


def chain(*steps):
    """A table-maker: after token a comes b, for each (a, b)."""

    def table(size):
        logits = np.zeros((size, size), np.float32)
        for a, b in steps:
            logits[a, b] = STRONG
        return logits

    return table


def sentence(*ids, then=EOS):
    """After each id the next one, and after the last `then`."""
    return chain(*zip(ids, [*ids[1:], then], strict=True))


def write(path, tokens, table, *, add_bos=True, template=None, context=256, control=(), broken=()):
    """A GGUF whose vocabulary is of model type llama, with `tokens` as ids FIRST.., those in `control` control tokens.

    The logits after ids in `broken` are NaN."""
    texts = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *tokens]
    kinds = [2, 3, 3, *[6] * 256, *(3 if token in control else 1 for token in tokens)]
    size = len(texts)
    dim = -(-size // 32) * 32
    w = gguf.GGUFWriter(str(path), "llama")
    w.add_context_length(context)
    w.add_embedding_length(dim)
    w.add_block_count(1)
    w.add_feed_forward_length(32)
    w.add_head_count(1)
    w.add_layer_norm_rms_eps(1e-6)
    w.add_tokenizer_model("llama")
    w.add_tokenizer_pre("default")
    w.add_token_list(texts)
    w.add_token_scores([0.0] * FIRST + [-float(i) for i in range(len(tokens))])
    w.add_token_types(kinds)
    w.add_bos_token_id(BOS)
    w.add_eos_token_id(EOS)
    w.add_unk_token_id(0)
    w.add_add_bos_token(add_bos)
    w.add_add_space_prefix(False)
    if template:
        w.add_chat_template(template)
    for name, tensor in _tensors(size, dim, table(size), list(broken)).items():
        w.add_tensor(name, tensor)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    return path


def _tensors(size, dim, table, broken):
    head = np.zeros((size, dim), np.float32)
    head[:, :size] = table.T / np.sqrt(dim)
    tensors = {"token_embd.weight": np.eye(size, dim, dtype=np.float32), "output.weight": head}
    tensors["token_embd.weight"][broken] = np.nan
    tensors["output_norm.weight"] = np.ones(dim, np.float32)
    for name in ("attn_norm", "ffn_norm"):
        tensors[f"blk.0.{name}.weight"] = np.ones(dim, np.float32)
    for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
        tensors[f"blk.0.{name}.weight"] = np.zeros((dim, dim), np.float32)
    for name, shape in (("ffn_gate", (32, dim)), ("ffn_up", (32, dim)), ("ffn_down", (dim, 32))):
        tensors[f"blk.0.{name}.weight"] = np.zeros(shape, np.float32)
    return tensors
