"""Finds the name that GGUF has for a folder's pre-tokenizer: the one that cuts a text the same way.

Names are compared by what they do, as expressions may be written in many ways."""

from __future__ import annotations

import functools
import json
import warnings
from typing import Any

from tokenizers import Regex, Tokenizer, pre_tokenizers

from edgeinfer.errors import FormatError
from edgeinfer.formats.cursor import shown
from edgeinfer.tokenizer.pretokenizers import PRE_TOKENIZERS, PreTokenizer

# What the expressions differ in: contractions in either case, digits in rows of all lengths, signs, line breaks, and
# scripts that some of them single out; then what GGUF's do not tell apart: marks, and the case of other letters.
_PLAIN = (
    "I'm you're WE'LL he'D it's don't O'Neil 'tis _snake camelCase HTTPServer iPhone ABCdef\n"
    "1 12 123 1234 12345 123456 1234567 3.14 1,000,000 x2y 2nd ４２ ٣٤ Ⅷ ² ½\r\n\r\n\n"
    "  two   three    four\t\ttabs \n \n"
    "!!! ... -- == => a+b=c $5.00 £€ (x) [y]{z} <tag/> /* */ // \\ ^~`| @#%& \"quoted\" 'q' “curly” … — "
    "！？。、「」\n/\n//\n"
    "中文字符和日本語ひらがなカタカナ한국어 조선말 ㄱㄴ русский ελληνικά العربية ไทย ລາວ עברית"
    " 😀👍🏽 🇫🇷 ͏ \u200b\u00a0\u3000 <sentinel:7> IMGIMGABZ\n      end  "
)
_SUBTLE = "x'ſ éàÜ naïveÉ cafe\u0301 a\u0301b हिन्दी မြန်မာ Ünïcode ΑΒγ ЭЮя"
_EMPTY = {"type": "BPE", "vocab": {}, "merges": []}

Spans = list[tuple[int, int]]


def name(described: Any, whole_words: bool, arch: str) -> str:
    """The name of the pre-tokenizer that tokenizer.json describes; that of the architecture where several do the same.

    A warning names the closest one where none cuts as it does.  FormatError if the library cannot read it."""
    made = _built(described)
    wanted, subtle = _cut(made, _PLAIN), set(_cut(made, _SUBTLE))
    alike = [name for name, known in PRE_TOKENIZERS.items() if _spans(known, _PLAIN) == wanted]
    if not alike:
        closest = max(PRE_TOKENIZERS, key=lambda name: len(set(_spans(PRE_TOKENIZERS[name], _PLAIN)) & set(wanted)))
        warnings.warn(
            f"tokenizer.json has a pre-tokenizer that is not known; token ids may be wrong, taken for {closest!r}",
            stacklevel=2,
        )
        return closest

    def fit(name: str) -> tuple[int, bool, bool]:
        known = PRE_TOKENIZERS[name]
        return len(subtle & set(_spans(known, _SUBTLE))), name == arch, known.whole_words == whole_words

    return max(alike, key=fit)


def _built(described: Any) -> Any:
    """The pre-tokenizer as the library makes it."""
    file = {"version": "1.0", "added_tokens": [], "pre_tokenizer": described, "model": _EMPTY}
    try:
        return Tokenizer.from_str(json.dumps(file)).pre_tokenizer
    except Exception as error:  # the library raises no other kind
        raise FormatError(f"tokenizer.json: pre_tokenizer: {shown(' '.join(str(error).split()))}") from None


def _cut(made: Any, text: str) -> Spans:
    """Where it cuts the text; no pre-tokenizer leaves it whole."""
    return [(0, len(text))] if made is None else [span for _, span in made.pre_tokenize_str(text)]


@functools.cache
def _spans(known: PreTokenizer, text: str) -> Spans:
    return _cut(
        pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(one), "isolated") for one in known.expressions]), text
    )
