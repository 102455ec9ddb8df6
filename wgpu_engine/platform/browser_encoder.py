"""Encodes text with `@huggingface/tokenizers`, in browsers."""

from typing import Any

from wgpu_engine.errors import ModelFileError, UnsupportedModelError


class BrowserEncoder:
    """An `Encoder` on the JavaScript library, by way of web/engine/tokenizer.js.

    The worker registers its `makeEncoder` as part of the module `wgpu_engine_host`.
    """

    def __init__(self, tokenizer_json: str) -> None:
        """Takes the text of a `tokenizer.json`.

        Raises:
            UnsupportedModelError: a kind of tokenizer that the library gets wrong.
            ModelFileError: the library refuses it.
        """
        from wgpu_engine_host import makeEncoder

        try:
            self._js: Any = makeEncoder(tokenizer_json)
        except Exception as error:  # JavaScript's
            message = str(getattr(error, "message", error))
            if getattr(error, "kind", None) == "unsupported":
                raise UnsupportedModelError(message) from error
            raise ModelFileError(
                f"the tokenizer of this model can't be used ({message}): convert or download the model again"
            ) from error

    def encode(self, text: str) -> list[int]:
        """Ids of `text`, taken as plain text."""
        ids: list[int] = self._js.encode(text).to_py().tolist()
        return ids
