"""Fetches one file over HTTP, and goes on where it was interrupted."""

import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import httpx

from wgpu_engine.errors import DownloadError
from wgpu_engine.files.remote import RemoteFile
from wgpu_engine.files.store import HOME_VARIABLE, read_record, record_path, write_record

Progress = Callable[[str, int, int | None], None]
"""called with the stage ("download", "unpack", "verify"), the bytes done and the bytes in all, if known; it may raise,
which ends the pull"""

BACKOFF = (0.5, 1.0, 2.0, 4.0)
"""seconds between attempts; each byte gained gives all of them back"""
_TIMEOUT = httpx.Timeout(30, connect=15)
_SPARE = 64 << 20
"""bytes of disk to leave free"""


class _TryAgain(Exception):
    """An answer that another attempt may better."""


def fetch(remote: RemoteFile, part: Path, progress: Progress) -> str | None:
    """Bring a file to `part` whole, from where an earlier attempt left it if the server still has the same file.

    Beside `part` a record says which file its bytes belong to. An interruption, Ctrl-C included, leaves both.

    Returns:
        The file's SHA-256 according to the hub, if it says so.

    Raises:
        DownloadError: refused, not there, no connection, or interrupted too often.
    """
    failures, resumable, furthest = 0, False, _size(part)
    with _client() as client:
        while True:
            try:
                return _attempt(client, remote, part, progress)
            except (httpx.RequestError, _TryAgain) as error:
                # Against the furthest point: a server that can't resume must not keep us here for ever.
                gained = _size(part) > furthest
                failures, resumable = (1, True) if gained else (failures + 1, resumable)
                furthest = max(furthest, _size(part))
                unreachable = isinstance(error, httpx.ConnectError | httpx.UnsupportedProtocol) and not resumable
                if unreachable or failures > len(BACKOFF):
                    raise _explained(error, remote, 0 if unreachable else _size(part)) from error
                time.sleep(BACKOFF[failures - 1])
            except httpx.InvalidURL as error:
                raise DownloadError(f"{remote.source} isn't a URL that can be fetched ({error}): check it") from error


def need_space(folder: Path, size: int) -> None:
    """Refuse to fill the disk.

    Raises:
        DownloadError: fewer than `size` bytes, and some to spare, are free.
    """
    free = shutil.disk_usage(folder).free
    if size + _SPARE > free:
        raise DownloadError(
            f"{size / 1e6:.0f} MB more are needed in {folder} and {free / 1e6:.0f} MB are free: free some space or set "
            f"{HOME_VARIABLE} to a folder on another disk"
        )


def _client() -> httpx.Client:
    try:
        return httpx.Client(timeout=_TIMEOUT, follow_redirects=True)
    except (ValueError, ImportError, OSError) as error:
        raise DownloadError(
            f"the environment's proxy or certificate settings are of no use ({error}): check HTTPS_PROXY, ALL_PROXY "
            f"and SSL_CERT_FILE"
        ) from error


def _attempt(client: httpx.Client, remote: RemoteFile, part: Path, progress: Progress) -> str | None:
    notes = read_record(record_path(part))
    have = _size(part) if notes.get("source") == remote.source else 0
    if have and have == notes.get("total"):
        return str(notes["sha256"]) if notes.get("sha256") else None
    headers = {"Accept-Encoding": "identity"}
    if remote.token:
        headers["Authorization"] = f"Bearer {remote.token}"
    if have and notes.get("validator"):
        # The server sends the rest only if its file is still the same one, else all of it.
        headers |= {"Range": f"bytes={have}-", "If-Range": str(notes["validator"])}
    with client.stream("GET", remote.url, headers=headers) as response:
        _check_status(response, remote, part)
        if response.status_code == httpx.codes.PARTIAL_CONTENT:
            total = _range_total(response, have, part)
        else:
            have, total = 0, _number(response.headers.get("Content-Length"))
        sha256 = _hub_hash(response, remote.hub)
        need_space(part.parent, (total or 0) - have)
        if not have:
            # Until the record is there the bytes of another file must not be.
            part.unlink(missing_ok=True)
            notes = {"source": remote.source, "validator": _validator(response), "total": total, "sha256": sha256}
            write_record(record_path(part), notes)
        with part.open("ab") as file:
            _copy(response, file, have, total, progress)
    return sha256


def _copy(response: httpx.Response, file: BinaryIO, have: int, total: int | None, progress: Progress) -> None:
    progress("download", have, total)
    for chunk in response.iter_raw():
        file.write(chunk)
        file.flush()
        have += len(chunk)
        progress("download", have, total)
    if total is not None and have != total:
        raise _TryAgain(f"{have} of {total} bytes came")


def _check_status(response: httpx.Response, remote: RemoteFile, part: Path) -> None:
    status = response.status_code
    if status in (200, 206):
        return
    if status == 416:
        part.unlink(missing_ok=True)
        raise _TryAgain("the server has a shorter file")
    if status in (408, 425, 429) or status >= 500:
        raise _TryAgain(f"the server answers {status}")
    if status in (401, 403):
        hint = "accept the model's terms on its page and set HF_TOKEN to a token that may read it"
        if remote.hub and not remote.token:
            hint = f"the model doesn't exist or needs a login; {hint}"
        raise DownloadError(
            f"{remote.source} is refused to us ({status}): {hint if remote.hub else 'it needs a login'}"
        )
    if status in (404, 410):
        raise DownloadError(f"{remote.source} isn't there ({status}): check the spelling of its name")
    raise DownloadError(f"{remote.source} can't be fetched, the server answers {status}: check the address")


def _range_total(response: httpx.Response, have: int, part: Path) -> int | None:
    match = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+|\*)", response.headers.get("Content-Range", "").strip())
    if match is None or int(match[1]) != have:
        part.unlink(missing_ok=True)
        raise _TryAgain("the server sent another range than was asked for")
    return _number(match[3])


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


def _validator(response: httpx.Response) -> str | None:
    """What If-Range can be asked with: a strong ETag, else the date of the file."""
    etag: str = response.headers.get("ETag", "")
    date: str | None = response.headers.get("Last-Modified")
    return etag if etag and not etag.startswith("W/") else date


def _hub_hash(response: httpx.Response, hub: str | None) -> str | None:
    """The SHA-256 that the hub tells of a large file: in the redirect to its storage, or as the file's own ETag."""
    for answer in (*response.history, response):
        if hub and f"{answer.url.scheme}://{answer.url.netloc.decode()}".lower() == hub:
            tag: str = answer.headers.get("X-Linked-ETag") or answer.headers.get("ETag") or ""
            match = re.fullmatch(r'(?:W/)?"?([0-9a-fA-F]{64})"?', tag)
            if match:
                return match[1].lower()
    return None


def _explained(error: Exception, remote: RemoteFile, have: int) -> DownloadError:
    host = httpx.URL(remote.url).host
    reason = str(error) or type(error).__name__
    if "CERTIFICATE" in reason.upper():
        return DownloadError(
            f"{host} shows a certificate that isn't trusted here: set SSL_CERT_FILE to your authority's"
        )
    if have:
        return DownloadError(
            f"the download from {host} was interrupted after {have / 1e6:.1f} MB ({reason}): pull again to resume it"
        )
    return DownloadError(f"{host} can't be reached ({reason}): check the network connection and the proxy settings")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
