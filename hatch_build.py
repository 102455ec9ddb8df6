"""Before a wheel or an sdist is built: the page's JavaScript libraries, which no commit holds, are in web/vendor."""

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class FetchLibraries(BuildHookInterface):
    """Fetches what is missing, by npm. An editable install, which may do without a page, goes on without them."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        sys.path.insert(0, self.root)
        try:
            from wgpu_engine.bundle.npm import fetch, pinned
            from wgpu_engine.errors import BundleError
        finally:
            sys.path.remove(self.root)
        try:
            fetch(pinned("web"), Path(self.root) / "web" / "vendor")
        except BundleError as error:
            raise SystemExit(f"error: the page's JavaScript libraries are missing: {error}") from error
