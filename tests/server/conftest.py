"""A server on a tiny model: as an application, in a thread on a port, and as a process."""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from starlette.testclient import TestClient
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import BertProcessing

from tests.models.hf_models import config_of, write_folder
from wgpu_engine.engine.loading import LoadOptions
from wgpu_engine.engine.service import Service
from wgpu_engine.server import create_app
from wgpu_engine.server.connections import Connection
from wgpu_engine.server.listening import bind, url

NAME = "tiny"
CTX = 320
SLOTS = 4
QUEUE = 4


@pytest.fixture(scope="module")
def path(no_kernel_check: None, tiny_llama: Callable[..., Path]) -> Path:
    return tiny_llama()


@pytest.fixture(scope="module")
def service(path: Path) -> Iterator[Service]:
    opened = Service(path, LoadOptions(precision="exact", ctx_size=CTX, slots=SLOTS), queue=QUEUE)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def client(service: Service) -> Iterator[TestClient]:
    """Requests that find the application without a network; what fails there unforeseen fails the test."""
    with TestClient(create_app(service, NAME)) as opened:
        yield opened


@pytest.fixture(scope="session")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder whose words are letters."""
    folder = write_folder(tmp_path_factory.mktemp("bert") / "folder", config_of("BertModel"))
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefgh", *(f"##{letter}" for letter in "abcdefgh")]
    words += [f"unused{i}" for i in range(len(words), 500)]
    tokenizer = Tokenizer(WordPiece({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.add_special_tokens(words[:4])
    tokenizer.normalizer, tokenizer.pre_tokenizer = BertNormalizer(), BertPreTokenizer()
    tokenizer.post_processor = BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


@dataclass
class Live:
    """A server in a thread of this process."""

    url: str
    port: int
    service: Service
    server: uvicorn.Server

    @contextmanager
    def connection(self) -> Iterator[socket.socket]:
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as opened:
            yield opened

    def settle(self) -> None:
        """Waits until nothing runs."""
        wait_for(lambda: not (self.service.running or self.service.waiting))


def wait_for(holds: Callable[[], object], patience_s: float = 20.0) -> None:
    end = time.monotonic() + patience_s
    while not holds():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.01)


@pytest.fixture(scope="module")
def live(path: Path) -> Iterator[Live]:
    with serving(Service(path, LoadOptions(precision="exact", ctx_size=CTX, slots=SLOTS), queue=QUEUE)) as opened:
        yield opened


@contextmanager
def serving(service: Service) -> Iterator[Live]:
    """A service on a port; it is closed with the server."""
    bound = bind("127.0.0.1", 0)
    # so that not all that a test sends fits into the kernel's buffers
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
    config = uvicorn.Config(
        create_app(service, NAME, patience_s=0.0),
        http=Connection,
        log_level="warning",
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([bound],))
    thread.start()
    wait_for(lambda: server.started)
    yield Live(url(bound), bound.getsockname()[1], service, server)
    server.should_exit = True
    thread.join()
    bound.close()


@dataclass
class Program:
    """`wgpu-engine serve` in a process of its own."""

    process: subprocess.Popen[str]
    url: str
    port: int
    said: str


@contextmanager
def running(*arguments: str, beforehand: str = "", **environment: str) -> Iterator[Program]:
    """The program, once it serves; `beforehand` is Python that it runs first."""
    program = f"{beforehand}\nfrom wgpu_engine.__main__ import main\nmain()"
    command = [sys.executable, *(["-c", program] if beforehand else ["-m", "wgpu_engine"]), "serve", *arguments]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ | environment)
    assert process.stderr is not None
    lines: list[str] = []
    try:
        for line in process.stderr:
            lines.append(line)
            if "http://" in line:
                break
        said = "".join(lines)
        assert "http://" in said, said
        where = said[said.index("http://") :].split()[0]
        yield Program(process, where, int(where.rpartition(":")[2]), said)
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def greedy(**fields: Any) -> dict[str, Any]:
    """A body of a request whose answer depends on its prompt alone."""
    return {"model": NAME, "temperature": 0, "ignore_eos": True} | fields
