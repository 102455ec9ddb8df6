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
    """An answer of `/v1/completions`, which may begin with an echo of its prompt.

    `prompt` are its tokens and, once the answer begins, how likely those after the first were, where that is told.
    """

    prefix, kind, piece_kind = "cmpl", "text_completion", "text_completion"

    def __init__(
        self,
        index: int,
        vocabulary: Vocabulary,
        echo: str,
        prompt: tuple[Sequence[int], Sequence[TokenLogProbs]] | None = None,
    ) -> None:
        self._index, self._vocabulary, self._echo, self._prompt = index, vocabulary, echo, prompt
        # whoever asks for a prompt's counts on a token for each one that was made
        self._ending = prompt is not None
        self._length = len(echo)
        """characters up to the next chunk"""

    def piece(self, chunk: Chunk) -> dict[str, Any]:
        logprobs = None if chunk.logprobs is None else self._logprobs(chunk)
        if logprobs is not None and self._prompt is not None:
            before = self._prompt_logprobs(*self._prompt)
            logprobs = {name: before[name] + values for name, values in logprobs.items()}
            self._prompt = None
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
        for token, likely in _shown(chunk, self._vocabulary, ending=self._ending):
            self._tell(found, token, likely, offset)
            offset += self._width(token)
        return found

    def _prompt_logprobs(self, ids: Sequence[int], scores: Sequence[TokenLogProbs]) -> dict[str, list[Any]]:
        """Those of the echo's tokens, of which nothing says how likely the first was."""
        found: dict[str, list[Any]] = {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
        offset = 0
        for token, likely in zip(ids, (None, *scores), strict=True):
            self._tell(found, token, likely, min(offset, len(self._echo)))
            if self._vocabulary.is_special(token):
                # some prompts spell it out
                name = self._vocabulary.tokens[token]
                offset += len(name) if self._echo.startswith(name, offset) else 0
                continue
            is_prefixed = self._vocabulary.token_bytes(token).startswith(b" ")
            # the space that some tokenizers put before a text is no part of it
            offset += self._width(token) - (is_prefixed and not self._echo.startswith(" ", offset))
        return found

    def _tell(self, found: dict[str, list[Any]], token: int, likely: TokenLogProbs | None, offset: int) -> None:
        """Adds a token to what is told."""
        found["tokens"].append(self._spelled(token))
        found["text_offset"].append(offset)
        if likely is None:
            found["token_logprobs"].append(None)
            found["top_logprobs"].append(None)
            return
        # the token is among them, as the last one where it is not one of the likeliest
        top: dict[str, float] = {}
        for other, log_prob in (*likely.top, (token, likely.log_prob)):
            top.setdefault(self._spelled(other), _number(log_prob))
        found["token_logprobs"].append(_number(likely.log_prob))
        found["top_logprobs"].append(top)

    def _width(self, token: int) -> int:
        """Characters that begin in a token; none of markers, which aren't shown."""
        if self._vocabulary.is_special(token):
            return 0
        return len(_LATER_BYTES.sub(b"", self._vocabulary.token_bytes(token)))

    def _spelled(self, token: int) -> str:
        """A token's text, or its bytes where they are no whole characters."""
        if self._vocabulary.is_special(token):
            return self._vocabulary.tokens[token]
        data = self._vocabulary.token_bytes(token)
        try:
            return data.decode()
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)


def _shown(chunk: Chunk, vocabulary: Vocabulary, *, ending: bool = False) -> list[tuple[int, TokenLogProbs]]:
    """The tokens whose text a chunk has: not those of a stop string, and the one that ended the answer if `ending`."""
    told = list(zip(chunk.tokens, chunk.logprobs or (), strict=True))
    if chunk.finish_reason != "stop":
        return told
    if told and told[-1][0] in vocabulary.end_ids:
        return told if ending else told[:-1]
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
