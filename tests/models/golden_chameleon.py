"""Puts transformers' logits for Chameleon's 34B into decoders.json: there the norms come after the branches, and in
llama.cpp the MLP then reads what attention gave without what went into it.

Run by hand as `python -m tests.models.golden_chameleon` where torch and transformers are installed, 5.24 or later.
"""

import pathlib
import tempfile

import torch
from transformers import ChameleonConfig
from transformers.models.chameleon.modeling_chameleon import ChameleonForConditionalGeneration

from edgeinfer.formats import gguf
from tests.models.decoders import CASES, DIM, FF, FULL, KEPT, LAYERS, PICTURES_END, PROMPT, keep

HEADS = FULL["attention.head_count"]
SMALL = {"base_channels": 32, "channel_multiplier": [1], "num_res_blocks": 1, "resolution": 32, "latent_channels": 8}
NAMES = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
}  # fmt: skip
WHOLE = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def weight(file: gguf.GgufFile, name: str) -> torch.Tensor:
    """By transformers' name; rows of Q and K, of which RoPE turns adjacent pairs in GGUF, as halves of heads."""
    stem, _, end = name.rpartition(".")
    if ".layers." not in name:
        return torch.tensor(file.tensors[f"{WHOLE[stem]}.{end}"].float32())
    layer, _, part = stem.partition(".layers.")[2].partition(".")
    x = torch.tensor(file.tensors[f"blk.{layer}.{NAMES[part]}.{end}"].float32())
    if NAMES[part][:6] not in ("attn_q", "attn_k"):
        return x
    pairs = x.reshape(HEADS, DIM // HEADS // 2, 2, -1)
    return pairs.transpose(1, 2).reshape(x.shape)


def main() -> None:
    config = ChameleonConfig(
        vocab_size=PICTURES_END + KEPT, hidden_size=DIM, intermediate_size=FF, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, num_key_value_heads=HEADS, rms_norm_eps=1e-5, swin_norm=True,
        vocabulary_map={"<image>": PICTURES_END}, vq_config=SMALL | {"embed_dim": 8, "num_embeddings": 8},
    )  # fmt: skip
    model = ChameleonForConditionalGeneration(config).eval()
    with (
        tempfile.TemporaryDirectory() as folder,
        gguf.open(CASES["chameleon-34b"].write(pathlib.Path(folder) / "m.gguf")) as file,
    ):
        text = [name for name in model.state_dict() if "vqmodel" not in name]
        model.load_state_dict({name: weight(file, name) for name in text}, strict=False)
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([PROMPT])).logits[0, -1, PICTURES_END:]
    keep({"chameleon-34b": logits.numpy()})


if __name__ == "__main__":
    main()
