"""Small tokenizers of each kind, made by the library that defines `tokenizer.json`."""

from collections.abc import Callable

from tokenizers import AddedToken, decoders, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Library
from tokenizers.models import BPE, WordPiece

from wgpu_engine.text.vocabulary import BYTE_OF_LETTER

SPECIAL = ("<unk>", "<s>", "</s>")


def added(library: Library, first: str | None = "<s>", last: str | None = None) -> Library:
    """With special tokens, one that isn't special, and what goes round a text."""
    library.add_special_tokens([AddedToken(text, normalized=False) for text in SPECIAL])
    library.add_tokens([AddedToken("<|tool|>", normalized=False, rstrip=True)])
    if first or last:
        single = " ".join(text for text in (first, "$A", last) if text)
        ids = [(text, library.token_to_id(text)) for text in (first, last) if text]
        library.post_processor = processors.TemplateProcessing(single=single, special_tokens=ids)
    return library


def byte_level(**ends: str | None) -> Library:
    letters = list(BYTE_OF_LETTER)
    merges = [("t", "h"), ("th", "e"), ("Ġ", "the"), ("<", "s"), ("<s", ">")]
    tokens = [*SPECIAL, *letters, *(left + right for left, right in merges if left + right != "<s>")]
    library = Library(BPE({text: index for index, text in enumerate(tokens)}, merges))
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    return added(library, **ends)


def sentence_piece(space: str = "Prepend", **ends: str | None) -> Library:
    pieces = ["▁", *"thena", "th", "the", "▁the", "▁a"]
    merges = [("t", "h"), ("th", "e"), ("▁", "the"), ("▁", "a")]
    tokens = [*SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256)), *pieces]
    vocab = {text: index for index, text in enumerate(tokens)}
    library = Library(BPE(vocab, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    if space == "Prepend":
        library.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    else:
        library.pre_tokenizer = pre_tokenizers.Metaspace("▁", prepend_scheme=space, split=False)
    library.decoder = decoders.Sequence(steps if space == "never" else [*steps, decoders.Strip(" ", 1, 0)])
    return added(library, **ends)


def word_piece() -> Library:
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "##n", "##the", ",", "a", "größe"]
    library = Library(WordPiece({text: index for index, text in enumerate(tokens)}, unk_token="[UNK]"))
    library.normalizer = normalizers.BertNormalizer(lowercase=True, strip_accents=False)
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    library.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
    library.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    library.decoder = decoders.WordPiece()
    return library


KINDS: dict[str, Callable[..., Library]] = {
    "byte-level": byte_level,
    "SentencePiece": sentence_piece,
    "SentencePiece, a space first": lambda **ends: sentence_piece("first", **ends),
    "SentencePiece, a space always": lambda **ends: sentence_piece("always", **ends),
    "SentencePiece, no space": lambda **ends: sentence_piece("never", **ends),
}
