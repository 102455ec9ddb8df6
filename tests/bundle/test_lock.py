"""Pyodide's lock file, as we write it."""

import json
from pathlib import Path

from pyodide_lock import PyodideLockSpec

from wgpu_engine.bundle.folder import Built
from wgpu_engine.bundle.npm import sha256_of


def test_names_what_lies_beside_it(built: Built, pyodide_dir: Path) -> None:
    folder = built.folder / "pyodide"
    lock = json.loads((folder / "pyodide-lock.json").read_bytes())
    info = json.loads((pyodide_dir / "pyodide-lock.json").read_bytes())["info"]
    assert lock["info"] == {"version": "314.0.7", **info}
    assert set(lock["packages"]) == {"wgpu-engine", "jinja2", "markupsafe"}
    for name, package in lock["packages"].items():
        assert package["sha256"] == sha256_of((folder / package["file_name"]).read_bytes())
        assert set(package["depends"]) <= set(lock["packages"]) - {name}
    assert {path.name for path in folder.glob("*.whl")} == {
        package["file_name"] for package in lock["packages"].values()
    }


def test_the_reader_of_pyodide_build_takes_it(built: Built) -> None:
    spec = PyodideLockSpec.from_json(built.folder / "pyodide" / "pyodide-lock.json")
    spec.check_wheel_filenames()
    assert {package.package_type for package in spec.packages.values()} == {"package"}
