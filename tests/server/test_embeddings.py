"""`/v1/embeddings` of an encoder, and what it and a language model leave to each other."""

import asyncio
import base64
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import openai
import pytest
from starlette.testclient import TestClient

from tests.server.conftest import running
from wgpu_engine import Embedder
from wgpu_engine.server import create_embeddings_app
from wgpu_engine.server.embedding_service import EmbeddingService

IDS = [[5, 9, 77, 31], [8] * 40, [3]]


@pytest.fixture(scope="module")
def encoding(bert: Path, no_kernel_check: None) -> Iterator[EmbeddingService]:
    opened = EmbeddingService(bert, {"precision": "exact"}, queue=2)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def encoder(encoding: EmbeddingService) -> Iterator[TestClient]:
    with TestClient(create_embeddings_app(encoding, "bert")) as opened:
        yield opened


@pytest.fixture(scope="module")
def wanted(bert: Path) -> Any:
    with Embedder(bert, precision="exact") as embedder:
        return embedder.embed(IDS)


def test_in_floats_and_in_base64(encoder: TestClient, wanted: Any) -> None:
    answer = encoder.post("/v1/embeddings", json={"model": "bert", "input": IDS}).json()
    assert (answer["object"], answer["model"]) == ("list", "bert")
    assert [(each["object"], each["index"]) for each in answer["data"]] == [("embedding", i) for i in range(len(IDS))]
    assert np.array_equal(np.array([each["embedding"] for each in answer["data"]], np.float32), wanted)
    assert answer["usage"] == {"prompt_tokens": 45, "total_tokens": 45}
    body = {"input": IDS[0], "encoding_format": "base64", "dimensions": wanted.shape[1]}
    (one,) = encoder.post("/v1/embeddings", json=body).json()["data"]
    assert base64.b64decode(one["embedding"]) == wanted[0].tobytes()


def test_fewer_dimensions(encoder: TestClient, wanted: Any) -> None:
    """The first ones, of length 1 again."""
    for form in ("float", "base64"):
        body = {"input": IDS[0], "encoding_format": form, "dimensions": 5}
        (one,) = encoder.post("/v1/embeddings", json=body).json()["data"]
        values = one["embedding"] if form == "float" else np.frombuffer(base64.b64decode(one["embedding"]), np.float32)
        short = wanted[0, :5].astype(np.float64)
        np.testing.assert_allclose(values, short / np.linalg.norm(short), rtol=1e-6)


def test_texts(encoder: TestClient, encoding: EmbeddingService) -> None:
    texts = ["a b", "c"]
    found = encoder.post("/v1/embeddings", json={"input": texts}).json()
    rows = np.array([each["embedding"] for each in found["data"]], np.float32)
    assert np.array_equal(rows, encoding.embedder.embed(texts))
    assert found["usage"]["prompt_tokens"] == 4 + 3, "letters between [CLS] and [SEP]"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "input"),
        ({"input": None}, "input"),
        ({"input": []}, "input"),
        ({"input": [[]]}, "input"),
        ({"input": [1, "a"]}, "input"),
        ({"input": [1 << 30]}, "input"),
        ({"input": ["a"] * 2049}, "input"),
        ({"input": [5] * 10_000}, "input"),
        ({"input": "a", "dimensions": 0}, "dimensions"),
        ({"input": "a", "dimensions": 10_000}, "dimensions"),
        ({"input": "a", "dimensions": 2.5}, "dimensions"),
        ({"input": "a", "encoding_format": "int8"}, "encoding_format"),
    ],
)
def test_what_cannot_be(encoder: TestClient, body: dict[str, Any], field: str) -> None:
    response = encoder.post("/v1/embeddings", json=body)
    error = response.json()["error"]
    assert (response.status_code, error["param"]) == (400, field)
    assert field in error["message"]
    assert (error["code"] == "context_length_exceeded") == (len(body.get("input") or "") == 10_000)


def test_each_kind_of_model_says_what_it_cannot(encoder: TestClient, client: TestClient) -> None:
    response = client.post("/v1/embeddings", json={"input": "a"})
    assert response.status_code == 400 and "makes no embeddings" in response.json()["error"]["message"]
    for route in ("/v1/completions", "/v1/chat/completions"):
        response = encoder.post(route, json={"prompt": "a"})
        assert response.status_code == 400 and "can't write" in response.json()["error"]["message"]
    assert encoder.get("/v1/models").json()["data"][0]["meta"]["architecture"] == "bert"
    assert encoder.get("/v1/models/other").status_code == 404
    assert "/v1/embeddings" in encoder.get("/docs").text and "/apply-template" not in encoder.get("/openapi.json").text


def test_what_the_server_says_of_itself(encoder: TestClient) -> None:
    def figure(name: str) -> float:
        found = re.search(rf"^{re.escape(name)} (\S+)$", encoder.get("/metrics").text, re.MULTILINE)
        return float(found[1]) if found else 0.0

    names = ("wgpu_engine_prompt_tokens_total", 'wgpu_engine_requests_total{reason="done"}')
    names += ("wgpu_engine_embedding_seconds_count",)
    before = [figure(name) for name in names]
    assert encoder.post("/v1/embeddings", json={"input": IDS}).status_code == 200
    assert [figure(name) - old for name, old in zip(names, before, strict=True)] == [45, 1, 1]
    assert encoder.post("/v1/embeddings", json={"input": [[1 << 30]]}).status_code == 400
    assert figure('wgpu_engine_requests_total{reason="error"}') >= 1
    assert figure("wgpu_engine_requests_running") == figure("wgpu_engine_requests_waiting") == 0
    props = encoder.get("/props").json()
    assert (props["precision"], props["total_slots"], props["model"]["id"]) == ("exact", 1, "bert")
    assert encoder.get("/slots").json() == [{"id": 0, "is_processing": False}]


def test_a_queue_that_is_full(encoding: EmbeddingService, wanted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One request runs and two wait: others are told to come back, and those are served."""
    go = asyncio.Event()
    embed = encoding.embedder.aembed

    async def held(texts: Any) -> Any:
        await go.wait()
        return await embed(texts)

    async def crowd() -> None:
        app = create_embeddings_app(encoding, "bert")
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://x") as client:
            tasks = [asyncio.ensure_future(client.post("/v1/embeddings", json={"input": IDS})) for _ in range(3)]
            while encoding.waiting < 2:
                await asyncio.sleep(0.01)
            assert encoding.running == 1 and (await client.get("/slots")).json()[0]["is_processing"]
            refused = await client.post("/v1/embeddings", json={"input": IDS})
            assert refused.status_code == 503 and int(refused.headers["retry-after"]) > 0
            assert refused.json()["error"]["code"] == "overloaded"
            go.set()
            for response in await asyncio.gather(*tasks):
                rows = np.array([each["embedding"] for each in response.json()["data"]], np.float32)
                assert np.array_equal(rows, wanted)

    with monkeypatch.context() as patch:
        patch.setattr(encoding.embedder, "aembed", held)
        asyncio.run(crowd())
    assert (encoding.running, encoding.waiting) == (0, 0)


def test_a_long_request_lets_others_in(encoding: EmbeddingService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "_turn", asyncio.Lock())  # of this test's event loop
    ended: list[str] = []

    async def embed(name: str, texts: list[list[int]]) -> None:
        assert len(await encoding.embed(texts)) == len(texts)
        ended.append(name)

    async def both() -> None:
        long = [[8] * 40] * 300
        assert len(encoding.embedder.steps([40] * 300)) > 3
        await asyncio.gather(embed("long", long), embed("short", [[3]]))

    asyncio.run(both())
    assert ended == ["short", "long"]


def test_a_device_that_is_lost(encoder: TestClient, encoding: EmbeddingService, wanted: Any) -> None:
    encoding.embedder._device._device.destroy()
    response = encoder.post("/v1/embeddings", json={"input": IDS})
    assert (response.status_code, response.json()["error"]["code"]) == (503, "device")
    answer = encoder.post("/v1/embeddings", json={"input": IDS}).json()
    assert np.array_equal(np.array([each["embedding"] for each in answer["data"]], np.float32), wanted)


def test_the_command_with_the_openai_client(bert: Path, wanted: Any) -> None:
    with running(str(bert), "--port", "0", "--precision", "exact") as program:
        client = openai.OpenAI(base_url=f"{program.url}/v1", api_key="none")
        found = client.embeddings.create(model="folder", input=IDS)
        assert np.array_equal(np.array([each.embedding for each in found.data], np.float32), wanted)
