"""Chooses the tokenizer that a model's metadata describes."""

from collections.abc import Callable

from wgpu_engine.errors import ModelFileError
from wgpu_engine.platform.encoder import Encoder
from wgpu_engine.text.hf_tokenizer import HFTokenizer, NoTokenizer
from wgpu_engine.text.hf_vocabulary import hf_vocabulary, read_document, unnamed_vocabulary
from wgpu_engine.text.tokenizer import Tokenizer
from wgpu_engine.text.tokenizer_json import tokenizer_json
from wgpu_engine.text.vocabulary import Metadata, Vocabulary

_WITHOUT = ("none", "no_vocab")
"""how `tokenizer.ggml.model` says that there is no tokenizer: llama.cpp, src/llama-vocab.cpp"""


def open_tokenizer(metadata: Metadata, size: int, encoder: Callable[[str], Encoder]) -> Tokenizer:
    """The tokenizer of a model that has embeddings for `size` tokens.

    Args:
        encoder: makes an encoder of the text of a `tokenizer.json`.

    Raises:
        ModelFileError: the tokenizer is damaged, or of another model.
        UnsupportedModelError: a kind of tokenizer that this version doesn't know.
    """
    kind = metadata.get("tokenizer.ggml.model")
    if kind in _WITHOUT:
        return NoTokenizer(unnamed_vocabulary(metadata, size))
    if kind is None and "tokenizer.huggingface.json" in metadata:
        document = read_document(metadata)
        return HFTokenizer(hf_vocabulary(document, metadata, size), document, encoder)
    vocabulary = Vocabulary.from_metadata(metadata)
    if len(vocabulary) != size:
        raise ModelFileError(
            f"the vocabulary has {len(vocabulary)} tokens and the model {size} embeddings: convert or download the "
            "model again"
        )
    return Tokenizer(vocabulary, encoder(tokenizer_json(vocabulary)))
