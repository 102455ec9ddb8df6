"""What tests of answers share."""

from typing import Any

from wgpu_engine import LLM
from wgpu_engine.engine.answers import Chunk

GREEDY = {"temperature": 0, "ignore_eos": True}


def joined(chunks: list[Chunk]) -> tuple[str, list[int]]:
    return "".join(chunk.text for chunk in chunks), [token for chunk in chunks for token in chunk.tokens]


def fresh(llm: LLM, prompt: Any, **options: Any) -> Any:
    """An answer that nothing in the cache was used for."""
    llm._scheduler.reset()
    answer = llm.generate(prompt, **options)
    assert answer.timings.cached_tokens == 0
    return answer
