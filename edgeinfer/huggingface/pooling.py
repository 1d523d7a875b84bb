"""How the rows of a text become one, where a folder is one of sentence-transformers'.

Source: https://sbert.net/docs/package_reference/sentence_transformer/models.html."""

from edgeinfer.formats.gguf_header import Value
from edgeinfer.huggingface.folder import Folder

_FILE = "1_Pooling/config.json"
_NUMBERS = {"mean": 1, "cls": 2, "lasttoken": 3}  # of GGUF's key
_FLAGS = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token", "lasttoken": "pooling_mode_lasttoken"}


def pairs(folder: Folder, arch: str) -> dict[str, Value]:
    """The key pooling_type; none where the folder does not say, or means another kind."""
    settings = folder.json(_FILE) or {}
    for name, number in _NUMBERS.items():
        if settings.get("pooling_mode") == name or settings.get(_FLAGS[name]) is True:
            return {f"{arch}.pooling_type": number}
    return {}
