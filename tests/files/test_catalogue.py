"""Models by name: of the catalogue, and of the hub."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.files.downloads import interrupt_after, left, sha256
from wgpu_engine.errors import DownloadError, ModelNotFoundError
from wgpu_engine.files import download
from wgpu_engine.files.catalogue import CATALOGUE, CatalogueEntry
from wgpu_engine.files.download import pull
from wgpu_engine.files.store import Store


@pytest.fixture
def hub(make_server: Callable[[], Any], monkeypatch: pytest.MonkeyPatch, model: bytes) -> tuple[Any, Any]:
    """A hub that redirects to its storage, on another origin, as the real one does."""
    front, storage = make_server(), make_server()
    monkeypatch.setenv("HF_ENDPOINT", front.url)
    path = "/org/repo/resolve/main/m.gguf"
    front.redirects[path] = f"{storage.url}/blob?signature=1"
    front.headers[path] = {"X-Linked-ETag": f'"{sha256(model)}"', "X-Linked-Size": str(len(model))}
    storage.files["/blob"] = model
    storage.headers["/blob"] = {"ETag": f'"{"f" * 64}"'}
    return front, storage


def test_pulls_from_the_hub(store: Store, hub: tuple[Any, Any], model: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    front, storage = hub
    monkeypatch.setenv("HF_TOKEN", "secret")
    with pytest.raises(KeyboardInterrupt):
        pull("hf:org/repo/m.gguf", store, interrupt_after(1 << 20))
    assert pull("hf:org/repo/m.gguf", store).read_bytes() == model
    assert "range" in storage.requests[-1][1]
    assert [headers.get("authorization") for _, headers in front.requests] == ["Bearer secret"] * 2
    assert [headers.get("authorization") for _, headers in storage.requests] == [None] * 2
    assert store.find("hf:org/repo/m.gguf") == store.path_for("m")


def test_checks_the_hubs_hash(store: Store, hub: tuple[Any, Any], model: bytes) -> None:
    _, storage = hub
    storage.files["/blob"] = model[:-1] + bytes([model[-1] ^ 1])
    with pytest.raises(DownloadError, match=f"instead of {sha256(model)}, so it was deleted"):
        pull("hf:org/repo/m.gguf", store)
    assert left(store) == []


@pytest.mark.parametrize(
    ("token", "match"), [("", "doesn't exist or needs a login; accept .* HF_TOKEN"), ("t", "HF_TOKEN")]
)
def test_hints_at_the_token(
    store: Store, hub: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch, token: str, match: str
) -> None:
    monkeypatch.setenv("HF_TOKEN", token)
    hub[0].faults = [401]
    with pytest.raises(DownloadError, match=match):
        pull("hf:org/repo/m.gguf", store)


def test_pulls_the_catalogues_models(
    store: Store, hub: tuple[Any, Any], model: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = CatalogueEntry("named", "m.gguf", "hf:org/repo/m.gguf", "MIT", "a model", sha256="0" * 64)
    monkeypatch.setattr(download.catalogue, "lookup", lambda name: entry if name == "named" else None)
    with pytest.raises(DownloadError, match=f"instead of {'0' * 64}"):
        pull("named", store)
    assert CATALOGUE


def test_suggests_names(store: Store) -> None:
    with pytest.raises(ModelNotFoundError, match="did you mean smollm2"):
        pull("smollm", store)
    with pytest.raises(ModelNotFoundError, match="known are smollm2, "):
        pull("zzz", store)
    with pytest.raises(ModelNotFoundError, match=r"there is no model '../x' to pull"):
        pull("../x", store)
