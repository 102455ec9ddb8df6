import pytest

from wgpu_engine.errors import DownloadError
from wgpu_engine.files.catalogue import CATALOGUE
from wgpu_engine.files.remote import remote_files

HASH = "ab" * 32


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_ENDPOINT", raising=False)
    monkeypatch.delenv("HF_TOKEN", raising=False)


def test_understands_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    (file,) = remote_files("hf:org/repo/sub/model.gguf")
    assert file.url == "https://huggingface.co/org/repo/resolve/main/sub/model.gguf"
    assert (file.file, file.source) == ("model.gguf", "hf:org/repo/sub/model.gguf")
    assert (file.token, file.sha256, file.hub) == (None, None, "https://huggingface.co")
    monkeypatch.setenv("HF_TOKEN", "secret")
    monkeypatch.setenv("HF_ENDPOINT", "https://Mirror.example:8443/hf/")
    (file,) = remote_files(f"hf:org/repo/model.gguf@refs/pr/1#sha256={HASH}")
    assert file.url == "https://Mirror.example:8443/hf/org/repo/resolve/refs%2Fpr%2F1/model.gguf"
    assert (file.token, file.sha256, file.hub) == ("secret", HASH, "https://mirror.example:8443")
    assert file.source == "hf:org/repo/model.gguf@refs/pr/1"
    assert "secret" not in repr(file)


def test_refuses_a_token_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", " hf_x\n")
    assert remote_files("hf:org/repo/model.gguf")[0].token == "hf_x"
    for token in ("hf_ü", "two words", "hf_\x7f"):
        monkeypatch.setenv("HF_TOKEN", token)
        with pytest.raises(DownloadError, match="HF_TOKEN isn't an access token"):
            remote_files("hf:org/repo/model.gguf")


@pytest.mark.parametrize("way", ["resolve", "blob"])
def test_knows_the_hubs_own_addresses(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    monkeypatch.setenv("HF_TOKEN", "secret")
    (file,) = remote_files(f"https://huggingface.co/org/repo/{way}/main/model.gguf?download=true")
    assert file == remote_files("hf:org/repo/model.gguf")[0]


def test_gives_the_token_to_no_other_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "secret")
    for url in (
        "http://huggingface.co/o/r/resolve/main/m.gguf",
        "https://huggingface.co.example/o/r/resolve/main/m.gguf",
    ):
        (file,) = remote_files(url)
        assert (file.token, file.hub) == (None, None)


def test_understands_urls_and_keeps_their_secrets() -> None:
    (file,) = remote_files(f"https://user:pass@example.org:81/a%20b/m%C3%BC.gguf?sig=1#sha256={HASH.upper()}")
    assert file.url == "https://user:pass@example.org:81/a%20b/m%C3%BC.gguf?sig=1"
    assert file.file == "mü.gguf"
    assert file.source == "https://example.org:81/a%20b/m%C3%BC.gguf"
    assert file.sha256 == HASH


def test_lists_all_parts() -> None:
    files = remote_files("hf:o/r/q4/m-00002-of-00003.gguf@v1")
    assert [file.url.rpartition("/r/")[2] for file in files] == [
        f"resolve/v1/q4/m-0000{number}-of-00003.gguf" for number in (1, 2, 3)
    ]
    files = remote_files("http://example.org/m-00001-of-00002.gguf?x=1")
    assert [file.url for file in files] == [f"http://example.org/m-0000{number}-of-00002.gguf?x=1" for number in (1, 2)]
    with pytest.raises(DownloadError, match="leave it out"):
        remote_files(f"http://example.org/m-00001-of-00002.gguf#sha256={HASH}")


@pytest.mark.parametrize(
    ("spec", "match"),
    [
        ("hf:org/repo", "hf:org/repo/file.gguf"),
        ("hf:", "hf:org/repo/file.gguf"),
        ("hf:org//m.gguf", "hf:org/repo/file.gguf"),
        ("hf:org/../m.gguf", "hf:org/repo/file.gguf"),
        ("hf:org/repo/model.safetensors", "should end in .gguf"),
        ("https://example.org/model.zip", "should end in .gguf"),
        ("https://example.org", "should end in .gguf"),
        ("https:///m.gguf", "a host"),
        ("ftp://example.org/m.gguf", "begin with https://"),
        ("http://[::1/m.gguf", "isn't a URL"),
        ("http://example.org:99999/m.gguf", "isn't a URL"),
        ("https://example.org/m.gguf#sha256=123", "64 hexadecimal digits"),
    ],
)
def test_refuses_what_it_does_not_understand(spec: str, match: str) -> None:
    with pytest.raises(DownloadError, match=match):
        remote_files(spec)


def test_understands_the_catalogue() -> None:
    for entry in CATALOGUE:
        if isinstance(entry.source, str):
            (file,) = remote_files(entry.source)
            assert file.file == entry.file
            assert file.source == entry.source
