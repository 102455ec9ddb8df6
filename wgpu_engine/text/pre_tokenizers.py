"""How each byte-level BPE vocabulary splits text into words before merging, by its name in `tokenizer.ggml.pre`.

Names and flags: llama.cpp, src/llama-vocab.cpp. The expressions are those of the models' own tokenizer.json files,
written in the syntax that Oniguruma and `@huggingface/tokenizers` share: llama.cpp has to approximate some of them
(no `\\p{Lu}` in std::regex), we need not. Each expression splits the pieces that the one before it left; what it
doesn't match stays a piece of its own.
"""

from dataclasses import dataclass, replace

from wgpu_engine.errors import UnsupportedModelError


@dataclass(frozen=True)
class PreTokenizer:
    """The splitting rules of a family of byte-level BPE vocabularies."""

    expressions: tuple[str, ...]
    ignore_merges: bool = False
    """a word that is a token as it stands is taken whole, whatever the merges say"""
    add_bos: bool = False
    """BOS is put in front unless the file says otherwise"""
    byte_level: bool = True
    """text is mapped to the 256-letter alphabet of GPT-2; else raw characters with ▁ for spaces and <0xNN> bytes"""
    plain: bool = False
    """without a byte level: characters are themselves, spaces too, and those that have no token are left out"""


_CONTRACTION = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
_WORD = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_SYMBOLS = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_ASCII_SYMBOL_WORD = r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"
_CJK_KANA = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"

_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_QWEN2 = rf"{_CONTRACTION}|{_WORD}|\p{{N}}|{_SYMBOLS}|{_SPACES}"
_BLOOM = " ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"
_DEEPSEEK3_WORDS = (
    rf"{_ASCII_SYMBOL_WORD}|[^\r\n\p{{L}}\p{{P}}\p{{S}}]?[\p{{L}}\p{{M}}]+| ?[\p{{P}}\p{{S}}]+[\r\n]*|{_SPACES}"
)

# Letters with case, as deepseek-llm's tokenizer.json lists them.
_CASED_LETTERS = (
    "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373\u0376"
    "\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f"
    "\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77"
    "\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d"
    "\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4"
    "\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139"
    "\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d"
    "\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a"
    "\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2"
    "\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943"
)
# Ideographs, kana, Thai, Lao, Khmer, Burmese and Hangul, as AFMoE's tokenizer.json lists them.
_ASIAN = (
    "[\u4e00-\u9fff\u3400-\u4dbf\uf900-\ufaff\u3040-\u309f\u30a0-\u30ff\uff65-\uff9f\u2f00-\u2fdf\u0e40-\u0e7f"
    "\u0e80-\u0eff\u1780-\u17ff\u1000-\u109f\uaa60-\uaa7f\ua9e0-\ua9ff\uac00-\ud7af\u1100-\u11ff]+"
)
_YOUTU_SCRIPTS = (
    "[\uac00-\ud7a3\u3131-\u318e]+|[\uff01\u2026\u201c\u201d\u2018\u2019\u2014\uff1a\uff1b\uff0c\u3001-\u303f"
    "\ufe30-\ufe4f]+|[\u3105-\u312f]+|" + _CJK_KANA
)
# Digits in threes from the right. The models' own expressions look ahead without bound, which takes quadratic time
# on a megabyte of digits; past 40 groups (120 digits) the groups start from wherever the bound falls.
_GROUPS_AHEAD = "{0,40}"


def _cased_words(upper: str, lower: str, suffix: str, numbers: str) -> str:
    """Words split where a lower-case run ends, as in "camelCase" (GPT-4o and its kin)."""
    lead = r"[^\r\n\p{L}\p{N}]?"
    words = f"{lead}{upper}*{lower}+{suffix}|{lead}{upper}+{lower}*{suffix}"
    return rf"{words}|{numbers}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_SPACES}"


_gpt2 = PreTokenizer((_GPT2,))
_starcoder = PreTokenizer((r"\p{N}", _GPT2))
_qwen2 = PreTokenizer((_QWEN2,))
_llama3 = PreTokenizer((rf"{_CONTRACTION}|{_WORD}|\p{{N}}{{1,3}}|{_SYMBOLS}|{_SPACES}",))
_llama3_bos = replace(_llama3, ignore_merges=True, add_bos=True)
_deepseek3 = PreTokenizer((r"\p{N}{1,3}", _CJK_KANA, _DEEPSEEK3_WORDS))
_bloom = PreTokenizer((_BLOOM,))
_gpt4o = PreTokenizer((_cased_words(_UPPER, _LOWER, f"{_CONTRACTION}?", r"\p{N}{1,3}"),))
_tiny_aya = PreTokenizer((rf"\d{{1,3}}(?=(?:\d{{3}}){_GROUPS_AHEAD}\b)", *_gpt4o.expressions))
_bailing = PreTokenizer(
    (
        r"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])"
        rf"|{_WORD}|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
    )
)
_lines = PreTokenizer(("[^\\n]+|[\\n]+",), byte_level=False)

_TABLE: dict[str, PreTokenizer] = {
    "default": PreTokenizer((r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]")),
    "a.x-4.0": _gpt2,
    "afmoe": PreTokenizer((rf"\p{{N}}{{1,3}}(?=(?:\p{{N}}{{3}}){_GROUPS_AHEAD}(?!\p{{N}}))", _ASIAN, _DEEPSEEK3_WORDS)),
    "bailingmoe": _bailing,
    "bailingmoe2": _bailing,
    "bloom": _bloom,
    "chameleon": PreTokenizer(
        (
            "<sentinel:[0-9]+>",
            "(?:IMGIMG)(?:(?:A|B|C|D|E|F|G|H|I){1,4})Z",
            r"(?:[\t\n]|    |  )",
            r"\p{N}",
            r"[\p{P}!-/:-@\[-`{-~]",
            _GPT2,
        ),
        add_bos=True,
    ),
    "chatglm-bpe": _llama3,
    "codeshell": _starcoder,
    "cohere2moe": _tiny_aya,
    "command-r": _starcoder,
    "dbrx": _llama3,
    "deepseek-coder": PreTokenizer(
        (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+", r"\p{N}")
    ),
    "deepseek-llm": PreTokenizer(
        (
            r"[\r\n]",
            rf"\s?[{_CASED_LETTERS}]+",
            "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
            r"(?<!\s)\s+$",
            "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+",
            r"\p{N}+",
        )
    ),
    "deepseek-r1-qwen": _qwen2,
    "deepseek-v3": _deepseek3,
    "exaone": _starcoder,
    "exaone-moe": PreTokenizer(
        (
            rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?(?:\p{{L}}\p{{M}}*(?: \p{{L}}\p{{M}}*)*)+|\p{{N}}"
            r"| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+",
        )
    ),
    "exaone4": _gpt2,
    "f2llmv2": _qwen2,
    "falcon": PreTokenizer((r"[\p{P}\$\+<=>\^~\|`]+", _GPT2, "[0-9][0-9][0-9]")),
    "falcon-h1": _llama3_bos,
    "falcon3": _llama3_bos,
    "gemma4": replace(_lines, add_bos=True),
    "gigachat": _gpt2,
    "glm4": _llama3,
    "glm5": _llama3,
    "gpt-2": _gpt2,
    "gpt-4o": _gpt4o,
    "gpt3-finnish": _bloom,
    "granite-docling": _gpt2,
    "granite-embed-multi-311m": replace(_lines, add_bos=True),
    "granite-embed-multi-97m": replace(_gpt4o, ignore_merges=True),
    "grok-2": _qwen2,
    "hunyuan": _qwen2,
    "hunyuan-dense": _deepseek3,
    "hy_v4": _deepseek3,
    "jais": _gpt2,
    "jais-2": PreTokenizer(
        (
            rf"{_CONTRACTION}|{_WORD}|\p{{N}}{{1,3}}|{_SYMBOLS}|\s{{0,4096}}[\r\n]+"  # bounded: else quadratic
            + "".join(rf"|\s{{{run}}}(?!\S)" for run in (512, 256, 128, 64, 32, 16, 8, 4))
            + r"|\s{1,2}(?!\S)|\s{1}",
        )
    ),
    "jina-de": _gpt2,
    "jina-es": _gpt2,
    "jina-v1-en": _gpt2,
    "jina-v2-code": _gpt2,
    "jina-v2-de": _gpt2,
    "jina-v2-es": _gpt2,
    "jina-v5-nano": _llama3_bos,
    "joyai-llm": _deepseek3,
    "kanana2": _gpt4o,
    "kimi-k2": PreTokenizer(
        (
            r"[\p{Han}]+|"
            + _cased_words(
                r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]",
                r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]",
                f"{_CONTRACTION}?",
                r"\p{N}{1,3}",
            ).replace("[\\r\\n/]*", "[\\r\\n]*"),
        )
    ),
    "kormo": _qwen2,
    "laguna": PreTokenizer(("[^\\n]+|[\\n]+", _QWEN2)),
    "lfm2": _llama3_bos,
    "llada-moe": _bailing,
    "llama-bpe": _llama3_bos,
    "llama-v3": _llama3_bos,
    "llama3": _llama3_bos,
    "llama4": _gpt4o,
    "megrez": _qwen2,
    "mellum": _gpt2,
    "mellum2": _starcoder,
    "midm-2.0": _llama3_bos,
    "minerva-7b": _starcoder,
    "minicpm5": PreTokenizer(
        (r"\p{N}{1,3}", rf"{_CONTRACTION}|{_WORD}|\p{{N}}+|{_SYMBOLS}|{_SPACES}"), ignore_merges=True
    ),
    "minimax-m2": _gpt4o,
    "modern-bert": _gpt2,
    "mpt": _gpt2,
    "olmo": _gpt2,
    "phi-2": _gpt2,
    "pixtral": _llama3_bos,
    "poro-chat": _bloom,
    "qwen2": _qwen2,
    "qwen35": PreTokenizer(
        (
            rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}"
            rf"| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_SPACES}",
        )
    ),
    "refact": _starcoder,
    "roberta-bpe": _gpt2,
    "sarvam-moe": _lines,
    "seed-coder": PreTokenizer((rf"{_CONTRACTION}|{_WORD}|\p{{N}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|{_SPACES}",)),
    "smaug-bpe": _llama3,
    "smollm": _starcoder,
    "solar-open": _qwen2,
    "spark2_5": PreTokenizer(
        (
            r"\p{N}{1,3}",
            _CJK_KANA,
            rf"{_ASCII_SYMBOL_WORD}|[^\r\n\p{{L}}\p{{P}}\p{{S}}]?[\p{{L}}\p{{M}}]+| ?[\p{{P}}\p{{S}}]+"
            r"|[\r\n]|\s+(?!\S)|\s+",
            r"\p{N}",
        )
    ),
    "stablelm2": _qwen2,
    "starcoder": _starcoder,
    "superbpe": PreTokenizer((r"\p{N}+", r"(?=(?:\d{3}){1,40}(?!\d))")),
    "talkie": _gpt4o,
    "tekken": PreTokenizer((_cased_words(_UPPER, _LOWER, "", r"\p{N}"),), ignore_merges=True, add_bos=True),
    "tiny_aya": _tiny_aya,
    "trillion": _gpt2,
    "ufakzeka": PreTokenizer((rf"{_WORD}|\p{{N}}|{_SYMBOLS}|{_SPACES}",)),
    "viking": PreTokenizer((_BLOOM, r"\p{N}")),
    "whitespace": PreTokenizer((r"\S+",), byte_level=False, plain=True),
    "youtu": PreTokenizer(
        (_YOUTU_SCRIPTS, _cased_words(_UPPER, _LOWER, f"{_CONTRACTION}?", r"\p{N}")), ignore_merges=True
    ),
}

PRE_TOKENIZER_NAMES = frozenset(_TABLE)


def pre_tokenizer(name: str) -> PreTokenizer:
    """The splitting rules that `tokenizer.ggml.pre` names; a file without the key means "default".

    Raises:
        UnsupportedModelError: the name is not known; a guess would give silently wrong tokens.
    """
    try:
        return _TABLE[name or "default"]
    except KeyError:
        raise UnsupportedModelError(
            f"the tokenizer's pre-tokenizer {name!r} is not known to this version: update wgpu_engine, "
            "or convert the model with a pre-tokenizer that it knows"
        ) from None
