"""Says by its first bytes what a file is that is not GGUF: what users get from failed or half-done downloads."""

MAGIC = b"GGUF"
# The older formats' magics are 32-bit numbers, so their low byte comes first.
_LEGACY = {b"lmgg": "ggml", b"fmgg": "ggmf", b"tjgg": "ggjt", b"algg": "ggla", b"GGML": "GGML"}


def describe(head: bytes) -> str:
    """What is wrong with a file that begins with `head` (some hundred bytes), "" if it is GGUF."""
    start = head.lstrip().lower()
    if head.startswith(MAGIC):
        return ""
    if MAGIC.startswith(head):
        return "truncated: the file ends inside the GGUF magic"
    if head[:4] in _LEGACY:
        return f"a legacy GGML file ({_LEGACY[head[:4]]}), from before GGUF: get the model as GGUF or convert it"
    if start.startswith(b"version https://git-lfs"):
        return "a git-lfs pointer, not the model itself: fetch it with 'git lfs pull'"
    if start.startswith((b"<!doctype html", b"<html")):
        return "an HTML page, not a GGUF file: the download gave a web page instead"
    if _is_text(head):
        return f"a text file, not a GGUF file: it begins with {head[:20].decode('ascii', 'replace')!a}"
    return f"not a GGUF file: it begins with the bytes {head[:4].hex(' ')}, not with 'GGUF'"


def _is_text(head: bytes) -> bool:
    """Whether all is UTF-8 without control characters; a character cut at the end of `head` counts as whole."""
    text = head.decode("utf-8", "replace")
    return "\ufffd" not in text[:-1] and all(char.isprintable() or char in "\t\n\r\ufffd" for char in text)
