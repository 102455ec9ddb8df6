"""What pages of others may ask of a server."""

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from wgpu_engine.errors import RequestError
from wgpu_engine.server.origins import Origins, checked_origins


def client(*allowed: str, has_keys: bool = False, base: str = "http://127.0.0.1:8080") -> TestClient:
    routes = [Route(path, lambda _: PlainTextResponse("served")) for path in ("/", "/v1/models", "/health")]
    app = Starlette(routes=routes)
    app.add_middleware(Origins, allowed=allowed, has_keys=has_keys)
    return TestClient(app, base_url=base)


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:9090", "", "http://localhost"])
@pytest.mark.parametrize("has_keys", [True, False])
def test_pages_of_others_are_refused(origin: str, has_keys: bool) -> None:
    response = client(has_keys=has_keys).get("/v1/models", headers={"Origin": origin})
    assert response.status_code == 403 and "--cors" in response.json()["error"]["message"]
    assert response.json()["error"]["code"] == "forbidden_origin"
    assert client(has_keys=has_keys).get("/health", headers={"Origin": origin}).status_code == 200


def test_the_own_page_and_those_let_in_may_ask() -> None:
    for base in ("http://127.0.0.1:8080", "http://localhost:8080", "http://[::1]:8080"):
        assert client(base=base).get("/", headers={"Origin": base}).status_code == 200
        assert client(base=base).get("/").status_code == 200
    for allowed in ("https://a.example", "*"):
        asked = client(allowed).get("/v1/models", headers={"Origin": "https://a.example"})
        assert asked.status_code == 200
    assert client("https://a.example").get("/v1/models", headers={"Origin": "https://b.example"}).status_code == 403


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.x", "[", ""]
)
def test_names_given_to_the_loopback_address_are_refused(host: str) -> None:
    """As a page would that gives its own name this machine's address."""
    headers = {"Host": host, "Origin": f"http://{host}"}
    response = client().get("/v1/models", headers=headers)
    assert response.status_code == 403 and "localhost" in response.json()["error"]["message"]
    assert response.json()["error"]["code"] == "forbidden_host"
    assert client().get("/health", headers=headers).status_code == 200
    assert client(has_keys=True).get("/v1/models", headers=headers).status_code == 200
    assert client("*").get("/v1/models", headers=headers).status_code == 200


def test_hosts_that_are_this_machine() -> None:
    for host in ("localhost", "LOCALHOST:1", "localhost.:8080", "127.0.0.2:99", "[::1]", "[::1]:8080"):
        assert client().get("/v1/models", headers={"Host": host}).status_code == 200, host
    assert client("https://a.example").get("/v1/models", headers={"Host": "a.example"}).status_code == 200
    elsewhere = client(base="http://192.0.2.1:8080")
    assert elsewhere.get("/v1/models", headers={"Host": "box.example"}).status_code == 200


def test_origins_that_cannot_be() -> None:
    good = ["*", "https://a.example", "http://localhost:3000", "app://obsidian.md", "http://[::1]:80"]
    assert checked_origins([*good, " HTTPS://A.example "]) == [*good, "https://a.example"]
    for wrong in ("foo", "", "a.example", "https://a.example/", "https://a.example/x", "https://", "https://a b"):
        with pytest.raises(RequestError, match="without a path"):
            checked_origins([wrong])
