"""BERT, RoBERTa, XLM-R, CamemBERT and DistilBERT: the body by its own names, and the classifier of cross-encoders.

RoBERTa's positions begin behind that of padding; GGUF holds those that are used.
"""

from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer

ARCH = "bert"
CLASSES = (
    *("BertModel", "BertForSequenceClassification", "DistilBertModel", "DistilBertForSequenceClassification"),
    *("RobertaModel", "RobertaForSequenceClassification", "XLMRobertaModel", "XLMRobertaForSequenceClassification"),
    *("CamembertModel", "CamembertForSequenceClassification", "BertForMaskedLM", "DistilBertForMaskedLM"),
    *("RobertaForMaskedLM", "XLMRobertaForMaskedLM", "CamembertForMaskedLM"),
)
DEFAULTS = {"layer_norm_eps": 1e-12, "max_position_embeddings": 512, "pad_token_id": 1}

BODIES = ("", "bert.", "roberta.", "distilbert.")  # what the names of all but the classifier begin with
GUESSING = (  # masked words, which nothing here does
    *("cls.predictions", "cls.predictions.decoder", "cls.predictions.transform.dense"),
    *("cls.predictions.transform.LayerNorm", "lm_head", "lm_head.decoder", "lm_head.dense", "lm_head.layer_norm"),
    *("vocab_projector", "vocab_transform", "vocab_layer_norm"),
)
EMBEDDING = {
    "token_embd": "embeddings.word_embeddings",
    "token_types": "embeddings.token_type_embeddings",
    "token_embd_norm": "embeddings.LayerNorm",
}
LAYER = {
    "attn_q": "attention.self.query",
    "attn_k": "attention.self.key",
    "attn_v": "attention.self.value",
    "attn_output": "attention.output.dense",
    "attn_output_norm": "attention.output.LayerNorm",
    "ffn_up": "intermediate.dense",
    "ffn_down": "output.dense",
    "layer_output_norm": "output.LayerNorm",
}
DISTILLED = {
    **{"attn_q": "attention.q_lin", "attn_k": "attention.k_lin", "attn_v": "attention.v_lin"},
    **{"attn_output": "attention.out_lin", "attn_output_norm": "sa_layer_norm"},
    **{"ffn_up": "ffn.lin1", "ffn_down": "ffn.lin2", "layer_output_norm": "output_layer_norm"},
}


def write(w: Writer) -> None:
    usual.expect_activation(w, "gelu")
    usual.sizes(w, "layer")
    usual.both_ways(w)
    body = next((body for body in BODIES if w.has(f"{body}{EMBEDDING['token_embd']}.weight")), "")
    w.copy({name: body + source for name, source in EMBEDDING.items()})
    positions = w.take(f"{body}embeddings.position_embeddings.weight")
    if w.source_class.startswith(("Roberta", "XLMRoberta", "Camembert")):
        positions = positions[w.config.integer("pad_token_id") + 1 :]
    w.put("position_embd.weight", positions)
    w.key("context_length", len(positions))
    distilled = w.source_class.startswith("Distil")
    for _ in w.layers(usual.layers(w), body + ("transformer.layer" if distilled else "encoder.layer")):
        w.copy(DISTILLED if distilled else LAYER)
    classifier(w, body)


def classifier(w: Writer, body: str) -> None:
    """A dense layer and a score of what it gives; without a score the dense layer, BERT's pooler, is left out."""
    dense = {"pre_classifier": "relu", "classifier.dense": "tanh", f"{body}pooler.dense": "tanh"}
    ignore_heads(w, body)
    score = "classifier.out_proj" if w.has("classifier.out_proj.weight") else "classifier"
    if w.has(f"{score}.weight"):
        usual.score(w, score)
        source = next((source for source in dense if w.has(f"{source}.weight")), "")
        w.copy({"cls.output": score, "cls": source})
        w.key("classifier.activation", dense.get(source, "tanh"))


def ignore_heads(w: Writer, body: str) -> None:
    """Also those of Jina's."""
    sources = (f"{body}pooler.dense", "pre_classifier", "classifier.dense", *GUESSING)
    w.ignore(*(f"{source}.{ending}" for source in sources for ending in ("weight", "bias")))
