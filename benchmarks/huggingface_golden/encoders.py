"""Encoders and cross-encoders."""

from __future__ import annotations

from benchmarks.huggingface_golden.settings import OWN, WINDOW, Cases

BERT = {"num_key_value_heads": None, "type_vocab_size": 2, "num_labels": 1, "layer_norm_eps": 1e-5}
ROBERTA = {**BERT, "type_vocab_size": 1, "pad_token_id": 4}  # not among the ids
DISTILLED = {**OWN, "dim": 32, "hidden_dim": 48, "n_heads": 4, "n_layers": 2, "num_labels": 1}
MODERN = {
    **{"num_key_value_heads": None, "num_hidden_layers": 4, "local_attention": 8},
    **{"num_labels": 1, "classifier_pooling": "mean"},
}

GEMMA3 = {**WINDOW, "head_dim": 16, "query_pre_attn_scalar": 16}
T5 = {**OWN, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 3, "num_heads": 4}

CASES: Cases = {
    "nomic_bert": ("NomicBertModel", {**BERT, "layer_norm_eps": 1e-5}),
    "jina_embeddings_v3": ("JinaEmbeddingsV3Model", {**BERT, "type_vocab_size": 1}),
    "embedding_gemma": (
        "Gemma3TextModel",
        {
            **GEMMA3,
            "num_hidden_layers": 4,
            "use_bidirectional_attention": True,
            "_sliding_window_pattern": 3,
            "layer_types": ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"],
        },
    ),
    "camembert": ("CamembertModel", ROBERTA),
    "camembert-ranks": ("CamembertForSequenceClassification", ROBERTA),
    "llama-embeds": ("LlamaModel", {}),
    "mistral-embeds": ("MistralModel", {"head_dim": 16}),
    "qwen2-embeds": ("Qwen2Model", {}),
    "eurobert": ("EuroBertModel", {}),
    "eurobert-masked": ("EuroBertForMaskedLM", {}),
    "qwen3-embeds": ("Qwen3Model", {"head_dim": 16}),
    "bert-masked": ("BertForMaskedLM", BERT),
    "distilbert-masked": ("DistilBertForMaskedLM", DISTILLED),
    "roberta-masked": ("RobertaForMaskedLM", ROBERTA),
    "xlm_roberta-masked": ("XLMRobertaForMaskedLM", ROBERTA),
    "camembert-masked": ("CamembertForMaskedLM", ROBERTA),
    "modernbert-masked": ("ModernBertForMaskedLM", MODERN),
    "t5": ("T5EncoderModel", T5),
    "t5-gated": ("T5EncoderModel", {**T5, "feed_forward_proj": "gated-gelu", "relative_attention_num_buckets": 16}),
    "bert": ("BertModel", BERT),
    "bert-ranks": ("BertForSequenceClassification", BERT),
    "distilbert": ("DistilBertModel", DISTILLED),
    "distilbert-ranks": ("DistilBertForSequenceClassification", DISTILLED),
    "roberta": ("RobertaModel", ROBERTA),
    "roberta-ranks": ("RobertaForSequenceClassification", ROBERTA),
    "xlm_roberta": ("XLMRobertaModel", ROBERTA),
    "xlm_roberta-ranks": ("XLMRobertaForSequenceClassification", ROBERTA),
    "modernbert": ("ModernBertModel", MODERN),
    "modernbert-ranks": ("ModernBertForSequenceClassification", MODERN),
    "qwen3-ranks": ("Qwen3ForSequenceClassification", {"head_dim": 16, "num_labels": 1}),
}
