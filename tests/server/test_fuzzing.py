"""Requests that schemathesis makes out of our own description: nothing fails on our side, and the description holds."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.server.conftest import NAME
from wgpu_engine.engine.loading import LoadOptions
from wgpu_engine.engine.service import Service
from wgpu_engine.server import create_app, create_embeddings_app
from wgpu_engine.server.embedding_service import EmbeddingService

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


@pytest.fixture(params=["a language model", "an encoder"])
def operations(
    request: pytest.FixtureRequest, no_kernel_check: None, tiny_llama: Callable[..., Path], bert: Path
) -> Iterator[list[Any]]:
    """Of an application of the test's own: with each test schemathesis shuts those down that it has asked."""
    service: Service | EmbeddingService
    if request.param == "an encoder":
        service = encoding = EmbeddingService(bert, {})
        app = create_embeddings_app(encoding, NAME)
    else:
        service = writing = Service(tiny_llama(), LoadOptions(ctx_size=96, slots=8), queue=64)
        app = create_app(writing, NAME)
    schema = schemathesis.openapi.from_asgi("/openapi.json", app)
    yield [found.ok() for found in schema.get_all_operations()]
    service.close()


@pytest.mark.slow
@pytest.mark.parametrize("mode", schemathesis.GenerationMode)
def test_no_request_makes_the_server_fail(operations: list[Any], mode: Any) -> None:
    tried = 0
    for operation in operations:
        if mode.is_negative and operation.method == "get":
            continue  # nothing of them can be wrong

        @settings(max_examples=60, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(case=operation.as_strategy(generation_mode=mode))
        def ask(case: Any) -> None:
            nonlocal tried
            case.call_and_validate(checks=CHECKS)
            tried += 1

        ask()
    assert tried > 200
