"""Where on the network a model is: what the user wrote, turned into files to fetch."""

import os
import re
from dataclasses import dataclass, field
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from wgpu_engine.errors import DownloadError
from wgpu_engine.files.model_file import part_names

HF_HOME = "https://huggingface.co"
_SHA256 = re.compile(r"[0-9a-fA-F]{64}")
_HUB_PATH = re.compile(r"/([^/]+/[^/]+)/(?:resolve|blob|raw)/([^/]+)/(.+)")


@dataclass(frozen=True)
class RemoteFile:
    """A file to fetch over HTTP."""

    url: str
    file: str
    """its name"""
    source: str
    """where it comes from, without secrets: for records and messages"""
    sha256: str | None = None
    """as the user gave it"""
    hub: str | None = None
    """the origin that gets `token` and whose headers tell the hash; None where it isn't on the Hugging Face hub"""
    token: str | None = field(default=None, repr=False)


def remote_files(spec: str) -> list[RemoteFile]:
    """The files that `hf:org/repo/file[@revision]` or a URL names: one, or all parts of a split model.

    Raises:
        DownloadError: it can't be understood.
    """
    if spec.startswith("hf:"):
        return _hub_files(spec)
    try:
        url = urlsplit(spec)
        port = url.port
    except ValueError as error:
        raise DownloadError(f"{spec[:200]!r} isn't a URL ({error}): check it") from error
    if url.scheme not in ("http", "https") or not url.hostname:
        raise DownloadError(f"{spec[:200]!r} isn't a URL: it should begin with https:// and a host")
    hub = _hub_url()
    if _origin(spec) == _origin(hub) and (match := _HUB_PATH.fullmatch(url.path)):
        repo, revision, path = (unquote(part) for part in match.groups())
        return _hub_files(f"hf:{repo}/{path}@{revision}", _fragment_hash(url.fragment))
    folder, _, name = url.path.rpartition("/")
    name = unquote(name)
    host = url.hostname if port is None else f"{url.hostname}:{port}"
    _check_name(name, f"{url.scheme}://{host}{url.path}")
    sha256 = _fragment_hash(url.fragment)
    names = _parts(name, sha256)
    return [
        RemoteFile(
            url=urlunsplit((url.scheme, url.netloc, f"{folder}/{quote(part)}", url.query, "")),
            file=part,
            source=urlunsplit((url.scheme, host, f"{folder}/{quote(part)}", "", "")),
            sha256=sha256,
        )
        for part in names
    ]


def _hub_files(spec: str, sha256: str | None = None) -> list[RemoteFile]:
    body, _, fragment = spec.removeprefix("hf:").partition("#")
    sha256 = sha256 or _fragment_hash(fragment)
    path, mark, revision = body.partition(".gguf@")
    path = path + ".gguf" if mark else path
    revision = revision or "main"
    pieces = path.split("/")
    if len(pieces) < 3 or not all(piece.strip(".") for piece in pieces):
        raise DownloadError(f"{spec[:200]!r} names no file on the hub: write it like hf:org/repo/file.gguf")
    _check_name(pieces[-1], spec)
    repo, folder = "/".join(pieces[:2]), "/".join([*pieces[2:-1], ""])
    hub = _hub_url()
    return [
        RemoteFile(
            url=f"{hub}/{quote(repo)}/resolve/{quote(revision, safe='')}/{quote(folder + part)}",
            file=part,
            source=f"hf:{repo}/{folder}{part}" + ("" if revision == "main" else f"@{revision}"),
            sha256=sha256,
            hub=_origin(hub),
            token=_token(),
        )
        for part in _parts(pieces[-1], sha256)
    ]


def _parts(name: str, sha256: str | None) -> list[str]:
    names = part_names(name)
    if sha256 and len(names) > 1:
        raise DownloadError(f"{name} is one of {len(names)} parts, and #sha256= is the hash of one: leave it out")
    return names


def _check_name(name: str, spec: str) -> None:
    if not name.lower().endswith(".gguf"):
        raise DownloadError(f"{spec[:200]} doesn't name a GGUF file: its last part should end in .gguf")


def _fragment_hash(fragment: str) -> str | None:
    if not fragment.startswith("sha256="):
        return None
    digest = fragment.removeprefix("sha256=")
    if not _SHA256.fullmatch(digest):
        raise DownloadError(f"#sha256={digest[:80]} isn't a SHA-256: it should be 64 hexadecimal digits")
    return digest.lower()


def _hub_url() -> str:
    return (os.environ.get("HF_ENDPOINT") or HF_HOME).rstrip("/")


def _token() -> str | None:
    token = os.environ.get("HF_TOKEN", "").strip()
    if not token.isascii() or not token.isprintable() or " " in token:
        raise DownloadError("HF_TOKEN isn't an access token: set it to the text that begins with hf_")
    return token or None


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}".lower()
