"""Figures for Prometheus."""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response

from wgpu_engine.engine.sequence import Timings
from wgpu_engine.engine.service import Service

_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """Counts of one server; names begin with `wgpu_engine_`."""

    def __init__(self, service: Service) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(_Now(service))

        def seconds(name: str, text: str) -> Histogram:
            return Histogram(f"wgpu_engine_{name}_seconds", text, buckets=_SECONDS, registry=self.registry)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"wgpu_engine_{name}", text, labels, registry=self.registry)

        self.first_token = seconds("time_to_first_token", "From the request to its first token.")
        self.per_token = seconds("time_per_output_token", "Between tokens after the first.")
        self.queue = seconds("queue", "From the request to its first step.")
        self.prompt_tokens = counter("prompt_tokens", "Tokens of prompts.")
        self.cached_tokens = counter("cached_prompt_tokens", "Tokens of prompts that the KV cache had.")
        self.completion_tokens = counter("completion_tokens", "Tokens of answers.")
        self.finished = counter("requests", "Answers by how they ended.", "reason")

    def note(self, timings: Timings, reason: str) -> None:
        """An answer that ended: "stop", "length", "cancelled" or "error"."""
        self.finished.labels(reason).inc()
        self.prompt_tokens.inc(timings.prompt_tokens)
        self.cached_tokens.inc(timings.cached_tokens)
        self.completion_tokens.inc(timings.completion_tokens)
        if timings.completion_tokens:
            self.queue.observe(timings.queue_s)
            self.first_token.observe(timings.first_token_s)
        if timings.completion_tokens > 1:
            self.per_token.observe(timings.decode_s / (timings.completion_tokens - 1))


class _Now(Collector):
    """What is asked of the service when somebody looks."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> Iterable[Metric]:
        service = self._service
        blocks = service.scheduler.engine.blocks
        for name, text, value in (
            ("requests_running", "Sequences that have a slot.", service.running),
            ("requests_waiting", "Requests that wait for a slot.", service.waiting),
            ("kv_usage_ratio", "Share of the KV cache that sequences hold.", blocks.used / (blocks.used + blocks.free)),
        ):
            yield GaugeMetricFamily(f"wgpu_engine_{name}", text, value)


async def metrics(request: Request) -> Response:
    """`GET /metrics`."""
    found: Metrics = request.app.state.metrics
    return Response(generate_latest(found.registry), media_type="text/plain; version=0.0.4; charset=utf-8")
