"""Numbers of small models that several families share."""

from __future__ import annotations

from tests.huggingface import golden

# name of the case: class of the model, and what its config has that BASE has not; None: left out
Cases = dict[str, tuple[str, dict[str, object]]]

BASE = {
    **{"vocab_size": golden.VOCAB, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2},
    **{"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64},
    **{"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2},
}
LEFT_OUT = {*BASE, "moe_intermediate_size"}  # of a config where a case says None
OWN = {name: None for name in ("hidden_size", "intermediate_size", "num_key_value_heads")}  # to leave out of BASE

EXPERTS = {"num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
FEW = {**EXPERTS, "moe_intermediate_size": None}  # as wide as the dense feed-forward would be
ROUTED = {**EXPERTS, "num_hidden_layers": 3, "n_routed_experts": 4, "n_shared_experts": 1, "first_k_dense_replace": 1}
SCALES = {"embedding_multiplier": 3.0, "residual_multiplier": 0.5, "attention_multiplier": 0.2, "logits_scaling": 2.0}
WINDOW = {"sliding_window": 6}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "rope_theta": 10000.0}
