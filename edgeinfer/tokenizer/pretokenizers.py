"""The pre-tokenizers that `tokenizer.ggml.pre` names: regular expressions that cut text into words.

Plain data.  No merge crosses the border of a word.  Each expression cuts what the one before left; what an expression
does not match stays together.  They are those of the models' publishers as llama.cpp reads them: it knows no subclasses
of letters, and blanks only as \\s."""

import warnings
from dataclasses import dataclass

from edgeinfer.formats.cursor import shown

_LONGEST = 100  # characters of an unknown name that are compared with those that are known

_CONTRACTION = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
_BLANKS = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_WORD = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_SIGNS = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
_SIGNS_SLASH = r" ?[^\s\p{L}\p{N}]+[\r\n/]*"
_KANA = "[一-龥\u3040-ゟ゠-ヿ]+"
_HAN_HANGUL = "[一-龥ࠀ-一가-\ud7ff&&[^\\s]]+"
# Matches nothing but a place: behind the first one or two digits of a number whose other digits divide into threes.
_DIGITS_FROM_RIGHT = r"(?:(?<=^[0-9]|[^0-9][0-9])|(?<=^[0-9]{2}|[^0-9][0-9]{2}))(?=(?:[0-9]{3})+(?![0-9]))"


def _cased(letters: str, digits: str, contraction: str) -> str:
    """Words that change from upper to lower case at most once; `letters` is the class they are made of."""
    upper, lower = rf"(?:(?={letters})[^a-z])", rf"(?:(?={letters})[^A-Z])"
    before = r"[^\r\n\p{L}\p{N}]?"
    words = rf"{before}{upper}*{lower}+{contraction}|{before}{upper}+{lower}*{contraction}"
    return f"{words}|{digits}|{_SIGNS_SLASH}|{_BLANKS}"


def _marked(digits: str) -> str:
    """Words of letters and the marks on them."""
    return rf"[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+{_CONTRACTION}?|{digits}|{_SIGNS_SLASH}|{_BLANKS}"


_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_LLAMA3 = rf"{_CONTRACTION}|{_WORD}|\p{{N}}{{1,3}}|{_SIGNS}|{_BLANKS}"
_QWEN2 = rf"{_CONTRACTION}|{_WORD}|\p{{N}}|{_SIGNS}|{_BLANKS}"
_QWEN35 = (
    rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}"
    rf"| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_BLANKS}"
)
_JAIS2 = rf"{_CONTRACTION}|{_WORD}|\p{{N}}{{1,3}}|{_SIGNS}|\s*[\r\n]+|" + "|".join(
    rf"\s{{{1 << power}}}(?!\S)" for power in range(9, -1, -1)
) + r"|\s+"  # fmt: skip
_KIMI = rf"{_WORD}{_CONTRACTION}?|\p{{N}}{{1,3}}|{_SIGNS}|{_BLANKS}"
_SEED = rf"{_CONTRACTION}|{_WORD}|\p{{N}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|{_BLANKS}"
_EXAONE_MOE = (
    rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?(?:\p{{L}}\p{{M}}*(?: \p{{L}}\p{{M}}*)*)+|\p{{N}}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"
)
_SIGN_WORD = r"[!-/:-~&&[^A-Za-z]][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
_DEEPSEEK_V3 = rf"{_SIGN_WORD}| ?[\p{{P}}\p{{S}}]+[\r\n]*|{_BLANKS}"
_SPARK = rf"{_SIGN_WORD}| ?[\p{{P}}\p{{S}}]+|[\r\n]|\s+(?!\S)|\s+"
_BLOOM = r" ?[^(\s|.,!?…。，、।۔،)]+"
_CASED_LETTERS = (
    "A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-\u1f7dᾀ-ᾴᾶ-ᾼ\u1fbe"
    "ῂ-ῄῆ-ῌῐ-\u1fd3ῖ-\u1fdbῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\u2126ℨ\u212a-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ"
    "𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃"
)
_AFMOE_SCRIPTS = "[一-鿿㐀-䶿豈-\ufaff\u3040-ゟ゠-ヿ･-ﾟ⼀-\u2fdfเ-๿຀-\u0effក-៿က-႟ꩠ-ꩿꧠ-\ua9ff가-힯ᄀ-ᇿ]+"
_YOUTU_SCRIPTS = "[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|" + _KANA


@dataclass(frozen=True)
class PreTokenizer:
    """How to cut words, and what else goes with the name.

    `whole_words`: a word that is a token is that token, whatever the merges say.
    `add_bos`: whether BOS begins a text, where the file does not say.
    `drops_blanks`: llama.cpp shows decoded text without the blanks before some signs."""

    expressions: tuple[str, ...]
    drops_blanks: bool = False
    whole_words: bool = False
    add_bos: bool = False


_CASED_WORDS = _cased(r"\p{L}", r"\p{N}{1,3}", _CONTRACTION + "?")
_MARKED_CASED_WORDS = _cased(r"[\p{L}\p{M}]", r"\p{N}{1,3}", _CONTRACTION + "?")
_LLM_SIGNS = r"\s?[!-/:-~！-／：-～‘-‟、-。]+"
_CHAMELEON_MARKS = ("<sentinel:[0-9]+>", "IMGIMG[A-I]{1,4}Z", r"[\t\n]|    |  ")

_FAMILIES: tuple[tuple[PreTokenizer, str], ...] = (
    (
        PreTokenizer((_GPT2,), drops_blanks=True),
        "gpt-2 a.x-4.0 exaone4 gigachat jais jina-de jina-es jina-v1-en jina-v2-code jina-v2-de jina-v2-es mellum"
        " modern-bert mpt olmo phi-2 roberta-bpe",
    ),
    (PreTokenizer((_GPT2,)), "granite-docling trillion"),
    (
        PreTokenizer((_QWEN2,)),
        "qwen2 bailingmoe bailingmoe2 deepseek-r1-qwen f2llmv2 grok-2 hunyuan kormo llada-moe solar-open",
    ),
    (PreTokenizer((_QWEN2,), drops_blanks=True), "megrez stablelm2"),
    (PreTokenizer((_QWEN35,)), "qwen35"),
    (
        PreTokenizer((_LLAMA3,), drops_blanks=True, whole_words=True, add_bos=True),
        "llama3 llama-v3 llama-bpe falcon-h1 falcon3 jina-v5-nano lfm2 midm-2.0 pixtral",
    ),
    (PreTokenizer((_LLAMA3,), drops_blanks=True), "dbrx chatglm-bpe glm4 glm5 smaug-bpe"),
    (PreTokenizer((r"\p{N}{1,3}", _LLAMA3), drops_blanks=True), "minicpm5"),
    (PreTokenizer((_JAIS2,), drops_blanks=True), "jais-2"),
    (
        PreTokenizer((r"\p{N}", _GPT2), drops_blanks=True),
        "starcoder codeshell exaone mellum2 minerva-7b refact",
    ),
    (PreTokenizer((r"\p{N}", _GPT2)), "command-r smollm"),
    (PreTokenizer((r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", "[0-9]{3}"), drops_blanks=True), "default"),
    (PreTokenizer((r"[\p{P}\$\+<=>\^~\|`]+", _GPT2, "[0-9]{3}"), drops_blanks=True), "falcon"),
    (PreTokenizer((_CASED_WORDS,)), "gpt-4o kanana2 llama4 minimax-m2 talkie"),
    (PreTokenizer((_MARKED_CASED_WORDS,)), "granite-embed-multi-97m"),
    (PreTokenizer((_cased(r"\p{L}", r"\p{N}", ""),), whole_words=True, add_bos=True), "tekken"),
    (PreTokenizer((_DIGITS_FROM_RIGHT, _marked(r"\p{N}{1,3}"))), "cohere2moe tiny_aya"),
    (PreTokenizer((_YOUTU_SCRIPTS, _marked(r"\p{N}")), whole_words=True), "youtu"),
    (PreTokenizer((r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _HAN_HANGUL, r"\p{N}")), "deepseek-coder"),
    (
        PreTokenizer((r"[\r\n]", rf"\s?[{_CASED_LETTERS}]+", _LLM_SIGNS, r"\s+\z", _HAN_HANGUL, r"\p{N}+")),
        "deepseek-llm",
    ),
    (PreTokenizer((r"\p{N}{1,3}", _KANA, _DEEPSEEK_V3)), "deepseek-v3 hunyuan-dense hy_v4 joyai-llm"),
    (PreTokenizer((_DIGITS_FROM_RIGHT, _AFMOE_SCRIPTS, rf"\p{{N}}{{1,3}}|{_DEEPSEEK_V3}")), "afmoe"),
    (PreTokenizer((r"\p{N}", _KANA, _SPARK)), "spark2_5"),
    (PreTokenizer((r"\p{Han}+", _KIMI)), "kimi-k2"),
    (PreTokenizer((r"\n+", _QWEN2)), "laguna"),
    (PreTokenizer((_SEED,)), "seed-coder"),
    (PreTokenizer((_EXAONE_MOE,), drops_blanks=True), "exaone-moe"),
    (PreTokenizer((_BLOOM,), drops_blanks=True), "bloom gpt3-finnish"),
    (PreTokenizer((_BLOOM,)), "poro-chat"),
    (PreTokenizer((_BLOOM, r"\p{N}")), "viking"),
    (PreTokenizer((r"\p{N}+", _DIGITS_FROM_RIGHT, "[0-9]{3}(?=[0-9])")), "superbpe"),
    (PreTokenizer((*_CHAMELEON_MARKS, r"\p{N}", r"[\p{P}!-/:-@\[-`{-~]", _GPT2), add_bos=True), "chameleon"),
)

# Names of vocabularies that are not of bytes, but as those of model type gemma4, though their files say gpt2.
LINES = frozenset(("granite-embed-multi-311m", "sarvam-moe"))

PRE_TOKENIZERS = {name: family for family, names in _FAMILIES for name in names.split()}


def pre_tokenizer(name: str) -> PreTokenizer:
    """The one called `name`; for a name that nobody knows a warning and `default`."""
    if name not in PRE_TOKENIZERS:
        import difflib  # takes 2 ms

        close = difflib.get_close_matches(name[:_LONGEST], [*PRE_TOKENIZERS, *LINES], 1, 0.0)[0]
        warnings.warn(
            f"unknown pre-tokenizer {shown(name)} (closest known: {close!r}); using 'default', "
            "so token ids may be wrong",
            stacklevel=2,
        )
        return PRE_TOKENIZERS["default"]
    return PRE_TOKENIZERS[name]
