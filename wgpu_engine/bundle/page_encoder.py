"""Finds out before a model is bundled whether the page can encode text for it, by the page's own code under Node.js."""

import tempfile
from pathlib import Path

from wgpu_engine.bundle import nodejs
from wgpu_engine.bundle.page import page_files
from wgpu_engine.errors import BundleError, ModelFileError, UnsupportedModelError

_SCRIPT = Path(__file__).with_name("check_tokenizer.mjs")
_REFUSED = 3
_TIMEOUT_S = 120


class PageEncoder:
    """Stands for the page's encoder: it can be made wherever that can, and encodes nothing."""

    def __init__(self, tokenizer_json: str) -> None:
        """Takes the text of a `tokenizer.json`.

        Raises:
            UnsupportedModelError: a kind that the page refuses. Without Node.js nobody knows, and the page will say so.
            ModelFileError: the page can't read it.
        """
        with tempfile.TemporaryDirectory(prefix="wgpu-engine-tokenizer-") as name:
            folder = Path(name)
            for path, data in page_files().items():
                if path.startswith(("engine/", "vendor/")):
                    (folder / path).parent.mkdir(exist_ok=True)
                    (folder / path).write_bytes(data)
            (folder / "package.json").write_text('{"type": "module"}')
            (folder / _SCRIPT.name).write_bytes(_SCRIPT.read_bytes())
            (folder / "tokenizer.json").write_text(tokenizer_json, encoding="utf-8", errors="surrogatepass")
            try:
                run = nodejs.run("node", [_SCRIPT.name, "tokenizer.json"], folder, _TIMEOUT_S)
            except BundleError:
                return
        said = " ".join(run.stderr.split())[:300]
        if run.returncode == _REFUSED:
            raise UnsupportedModelError(said)
        if run.returncode:
            raise ModelFileError(
                f"the tokenizer of this model can't be used ({said}): convert or download the model again"
            )

    def encode(self, text: str) -> list[int]:
        """Not to be called."""
        raise NotImplementedError
