"""Fetches the files of pinned npm packages, once. Usage: tools/fetch_npm.py GROUP FOLDER [GROUP FOLDER ...]

GROUP is web (JavaScript libraries of the page), pyodide (Python for browsers) or tests.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from wgpu_engine.bundle.npm import fetch, pinned
from wgpu_engine.errors import BundleError

if __name__ == "__main__":
    arguments = sys.argv[1:]
    try:
        for group, folder in zip(arguments[::2], arguments[1::2], strict=True):
            fetch(pinned(group), Path(folder), lambda spec: print(f"fetching {spec} ...", file=sys.stderr))
    except BundleError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
