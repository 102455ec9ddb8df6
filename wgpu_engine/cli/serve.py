"""`wgpu-engine serve`: a model over OpenAI's API."""

import os
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from wgpu_engine.cli import terminal
from wgpu_engine.cli.options import ModelName, ModelOptions
from wgpu_engine.cli.progress import ProgressDisplay
from wgpu_engine.errors import RequestError

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
    from wgpu_engine.engine.loading import LoadOptions
    from wgpu_engine.engine.service import Service
    from wgpu_engine.server.app import PATIENCE_S, create_app
    from wgpu_engine.server.listening import bind, listen, url

    keys = _keys(api_key or [], api_key_file)
    values = options.keywords()
    room = kv_positions or (None if slots <= 2 else 2 * (values["ctx_size"] or 4096))
    with bind(host, port) as bound:
        with ProgressDisplay() as progress:
            load_options = LoadOptions(**values, slots=slots, kv_positions=room)
            service = Service(model, load_options, queue=queue, progress=progress)
        try:
            for warning in service.loaded.warnings:
                terminal.note(f"warning: {warning}")
            name = alias or Path(model).name
            app = create_app(service, name, api_keys=keys, cors=cors or ())
            told = f"{name} on {service.loaded.device.adapter.name}: {url(bound)} (Ctrl-C ends it)"
            ready = partial(terminal.note, told)
            listen(app, bound, patience_s=PATIENCE_S, log_requests=log_requests, ready=ready)
        finally:
            # a second Ctrl-C skips the application's own end
            service.close()


def _keys(given: list[str], file: Path | None) -> list[str]:
    """All keys that are asked for.

    Raises:
        RequestError: a file that can't be read, or one without keys.
    """
    found = [*given, *os.environ.get(_KEY_VARIABLE, "").split(",")]
    if file is not None:
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise RequestError(f"the file of API keys {file} can't be read ({error}): check --api-key-file") from error
        if not any(line.strip() for line in lines):
            raise RequestError(f"the file of API keys {file} is empty: write a key on each line")
        found += lines
    return [key.strip() for key in found if key.strip()]
