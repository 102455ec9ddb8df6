"""Answers in the forms of the two endpoints: pieces of streams, and whole ones."""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from wgpu_engine.engine.answers import Chunk, collect
from wgpu_engine.ops.top_tokens import TokenLogProbs
from wgpu_engine.text.vocabulary import Vocabulary

_NEVER = -9999.0
"""for the logarithm of a probability that is none, or of next to none, as OpenAI's API has it"""
_LATER_BYTES = re.compile(rb"[\x80-\xbf]")
"""those that begin no character"""


class Choice(Protocol):
    """An answer on its way to its client."""

    prefix: str
    kind: str
    piece_kind: str

    def piece(self, chunk: Chunk) -> dict[str, Any]:
        """The next piece of a stream."""

    def whole(self, chunks: Sequence[Chunk]) -> dict[str, Any]:
        """All of it."""


class ChatChoice:
    """An answer of `/v1/chat/completions`."""

    prefix, kind, piece_kind = "chatcmpl", "chat.completion", "chat.completion.chunk"

    def __init__(self, index: int, vocabulary: Vocabulary) -> None:
        self._index, self._vocabulary, self._begun = index, vocabulary, False

    def piece(self, chunk: Chunk) -> dict[str, Any]:
        delta = {"content": chunk.text} if chunk.text or not self._begun else {}
        if not self._begun:
            delta = {"role": "assistant"} | delta
        self._begun = True
        logprobs = None if chunk.logprobs is None else self._logprobs([chunk])
        return {"index": self._index, "delta": delta, "logprobs": logprobs, "finish_reason": chunk.finish_reason}

    def whole(self, chunks: Sequence[Chunk]) -> dict[str, Any]:
        answer = collect(iter(chunks))
        return {
            "index": self._index,
            "message": {"role": "assistant", "content": answer.text},
            "logprobs": None if answer.logprobs is None else self._logprobs(chunks),
            "finish_reason": answer.finish_reason,
        }

    def _logprobs(self, chunks: Iterable[Chunk]) -> dict[str, Any]:
        content = [
            self._token(token, likely.log_prob) | {"top_logprobs": [self._token(*other) for other in likely.top]}
            for chunk in chunks
            for token, likely in _shown(chunk, self._vocabulary)
        ]
        return {"content": content, "refusal": None}

    def _token(self, token: int, log_prob: float) -> dict[str, Any]:
        """A token with its bytes, which markers have none of."""
        data = None if self._vocabulary.is_special(token) else self._vocabulary.token_bytes(token)
        text = self._vocabulary.tokens[token] if data is None else data.decode(errors="replace")
        return {"token": text, "logprob": _number(log_prob), "bytes": None if data is None else list(data)}


class TextChoice:
    """An answer of `/v1/completions`, which may begin with an echo of its prompt."""

    prefix, kind, piece_kind = "cmpl", "text_completion", "text_completion"

    def __init__(self, index: int, vocabulary: Vocabulary, echo: str) -> None:
        self._index, self._vocabulary, self._echo = index, vocabulary, echo
        self._length = len(echo)
        """characters up to the next chunk"""

    def piece(self, chunk: Chunk) -> dict[str, Any]:
        logprobs = None if chunk.logprobs is None else self._logprobs(chunk)
        text, self._echo = self._echo + chunk.text, ""
        self._length += len(chunk.text)
        return {"index": self._index, "text": text, "logprobs": logprobs, "finish_reason": chunk.finish_reason}

    def whole(self, chunks: Sequence[Chunk]) -> dict[str, Any]:
        pieces = [self.piece(chunk) for chunk in chunks]
        told = [piece["logprobs"] for piece in pieces if piece["logprobs"]]
        logprobs = {name: [value for each in told for value in each[name]] for name in told[0]} if told else None
        return pieces[-1] | {"text": "".join(piece["text"] for piece in pieces), "logprobs": logprobs}

    def _logprobs(self, chunk: Chunk) -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
        offset = self._length
        for token, likely in _shown(chunk, self._vocabulary):
            # the sampled token is among them, as the last one where it is not one of the likeliest
            top: dict[str, float] = {}
            for other, log_prob in (*likely.top, (token, likely.log_prob)):
                top.setdefault(self._spelled(other), _number(log_prob))
            found["tokens"].append(self._spelled(token))
            found["token_logprobs"].append(_number(likely.log_prob))
            found["top_logprobs"].append(top)
            found["text_offset"].append(offset)
            if not self._vocabulary.is_special(token):
                offset += len(_LATER_BYTES.sub(b"", self._vocabulary.token_bytes(token)))
        return found

    def _spelled(self, token: int) -> str:
        """A token's text, or its bytes where they are no whole characters."""
        if self._vocabulary.is_special(token):
            return self._vocabulary.tokens[token]
        data = self._vocabulary.token_bytes(token)
        try:
            return data.decode()
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)


def _shown(chunk: Chunk, vocabulary: Vocabulary) -> list[tuple[int, TokenLogProbs]]:
    """The tokens whose text a chunk has: neither the one that ended the answer, nor those of a stop string."""
    told = list(zip(chunk.tokens, chunk.logprobs or (), strict=True))
    if chunk.finish_reason != "stop":
        return told
    if told and told[-1][0] in vocabulary.end_ids:
        return told[:-1]
    left, shown = len(chunk.text.encode()), []
    for token, likely in told:
        if left <= 0:
            break
        shown.append((token, likely))
        left -= 0 if vocabulary.is_special(token) else len(vocabulary.token_bytes(token))
    return shown


def _number(log_prob: float) -> float:
    # JSON has neither NaN nor infinities
    return log_prob if log_prob > _NEVER else _NEVER
