"""`wgpu-engine serve`: a model over OpenAI's API."""

import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wgpu_engine.cli import terminal
from wgpu_engine.cli.options import DeviceOptions, ModelName, ModelOptions
from wgpu_engine.cli.progress import ProgressDisplay
from wgpu_engine.errors import RequestError

if TYPE_CHECKING:
    from starlette.applications import Starlette

SERVER_PANEL = "Server"
_KEY_VARIABLE = "WGPU_ENGINE_API_KEY"


def serve(
    model: ModelName,
    options: ModelOptions,
    host: Annotated[
        str, typer.Option(help="Address to listen on; 0.0.0.0 lets others in.", rich_help_panel=SERVER_PANEL)
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="0 takes a free one.", rich_help_panel=SERVER_PANEL)
    ] = 8080,
    alias: Annotated[
        str | None,
        typer.Option(help="What clients call the model; by default its name here.", rich_help_panel=SERVER_PANEL),
    ] = None,
    slots: Annotated[
        int, typer.Option(min=1, max=128, help="Answers made at a time.", rich_help_panel=SERVER_PANEL)
    ] = 8,
    kv_positions: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="TOKENS",
            help="Room of the KV cache for all answers together; by default two whole contexts.",
            rich_help_panel=SERVER_PANEL,
        ),
    ] = None,
    queue: Annotated[
        int, typer.Option(min=0, help="Requests that may wait for a slot.", rich_help_panel=SERVER_PANEL)
    ] = 64,
    api_key: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Ask clients for this key; may be given several times, or in {_KEY_VARIABLE}.",
            rich_help_panel=SERVER_PANEL,
        ),
    ] = None,
    api_key_file: Annotated[
        Path | None, typer.Option(help="File with a key on each line.", rich_help_panel=SERVER_PANEL)
    ] = None,
    cors: Annotated[
        list[str] | None,
        typer.Option(metavar="ORIGIN", help="Let pages of this origin call; * for all.", rich_help_panel=SERVER_PANEL),
    ] = None,
    log_requests: Annotated[bool, typer.Option(help="Log every request.", rich_help_panel=SERVER_PANEL)] = False,
) -> None:
    """Serve a model over OpenAI's API to many clients at a time.

    Examples:
      wgpu-engine serve smollm2
      wgpu-engine serve smollm2 --host 0.0.0.0 --port 8000 --api-key secret
      curl localhost:8080/v1/chat/completions -d '{"messages": [{"role": "user", "content": "Hi"}]}'
    """
    from wgpu_engine.server.app import PATIENCE_S
    from wgpu_engine.server.listening import bind, listen, url
    from wgpu_engine.server.origins import checked_origins

    origins = checked_origins(cors or ())
    keys = _keys(api_key or [], api_key_file)
    name = alias or Path(model).name
    room = kv_positions or (None if slots <= 2 else 2 * (options.ctx_size or 4096))
    with bind(host, port) as bound:
        with ProgressDisplay() as progress:
            served = _load(model, options, slots, room, queue, progress)
        try:
            for warning in served.warnings:
                terminal.note(f"warning: {warning}")
            app = served.application(name, api_keys=keys, cors=origins)
            ready = partial(terminal.note, f"{name} on {served.adapter}: {url(bound)} (Ctrl-C ends it)")
            listen(app, bound, patience_s=PATIENCE_S, log_requests=log_requests, ready=ready, ending=_say_the_end)
        finally:
            served.close()


@dataclass(frozen=True)
class _Served:
    application: "Callable[..., Starlette]"
    close: Callable[[], None]
    warnings: list[str]
    adapter: str


def _load(
    model: str, options: ModelOptions, slots: int, room: int | None, queue: int, progress: ProgressDisplay
) -> _Served:
    """A language model, or an encoder."""
    from wgpu_engine.engine.embedder import is_encoder
    from wgpu_engine.server.app import create_app, create_embeddings_app

    if is_encoder(model):
        from wgpu_engine.server.embedding_service import EmbeddingService

        few = {field.name: getattr(options, field.name) for field in fields(DeviceOptions)}
        encoder = EmbeddingService(model, few, queue=queue, progress=progress)
        embedder = encoder.embedder
        return _Served(partial(create_embeddings_app, encoder), encoder.close, embedder.warnings, embedder.adapter.name)
    from wgpu_engine.engine.loading import LoadOptions
    from wgpu_engine.engine.service import Service

    load_options = LoadOptions(**options.keywords(), slots=slots, kv_positions=room)
    service = Service(model, load_options, queue=queue, progress=progress)
    loaded = service.loaded
    return _Served(partial(create_app, service), service.close, loaded.warnings, loaded.device.adapter.name)


def _say_the_end(answers: int) -> None:
    if answers:
        what = "the answer that runs comes" if answers == 1 else f"the {answers} answers that run come"
        terminal.note(f"{what} to {'its' if answers == 1 else 'their'} end first; Ctrl-C again ends it at once")


def _keys(given: list[str], file: Path | None) -> list[str]:
    """All keys that are asked for.

    Raises:
        RequestError: a file that can't be read, or one without keys; a key that is blank, as variables of a shell are
            that nobody set.
    """
    if not all(key.strip() for key in given):
        raise RequestError("--api-key is empty, which would let everybody in: give a key, or leave the option out")
    outside = os.environ.get(_KEY_VARIABLE)
    found = [*given, *(outside or "").split(",")]
    if outside is not None and not outside.replace(",", "").strip():
        raise RequestError(f"{_KEY_VARIABLE} is empty, which would let everybody in: set it to a key, or unset it")
    if file is not None:
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise RequestError(f"the file of API keys {file} can't be read ({error}): check --api-key-file") from error
        if not any(line.strip() for line in lines):
            raise RequestError(f"the file of API keys {file} is empty: write a key on each line")
        found += lines
    return [key.strip() for key in found if key.strip()]
