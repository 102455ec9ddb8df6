"""Wheels made of what is installed: valid, the same each time, and enough for the core by themselves."""

import ast
import base64
import hashlib
import io
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from wgpu_engine.bundle import wheels
from wgpu_engine.bundle.wheels import Wheel, browser_wheels, library_wheel, own_wheel
from wgpu_engine.errors import BundleError
from wgpu_engine.resources import resource_dir

NAMES = ["wgpu-engine", "jinja2", "markupsafe"]


@pytest.fixture(scope="module")
def made() -> dict[str, Wheel]:
    return {wheel.name: wheel for wheel in browser_wheels()}


@pytest.mark.parametrize("name", NAMES)
def test_record_tells_what_is_in_it(made: dict[str, Wheel], name: str) -> None:
    wheel = made[name]
    with zipfile.ZipFile(io.BytesIO(wheel.data)) as archive:
        assert archive.testzip() is None
        info = f"{wheel.file_name.removesuffix('-py3-none-any.whl')}.dist-info"
        told = [line.rsplit(",", 2) for line in archive.read(f"{info}/RECORD").decode().splitlines()]
        assert [path for path, _, _ in told] == archive.namelist()
        for path, digest, size in told[:-1]:
            data = archive.read(path)
            expected = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            assert (digest, size) == (f"sha256={expected}", str(len(data)))
        assert told[-1] == [f"{info}/RECORD", "", ""]
        assert b"Root-Is-Purelib: true" in archive.read(f"{info}/WHEEL")
        assert any(path.startswith(f"{info}/licenses/") for path in archive.namelist())


@pytest.mark.parametrize("name", NAMES)
def test_pip_takes_it(made: dict[str, Wheel], name: str, tmp_path: Path) -> None:
    (tmp_path / made[name].file_name).write_bytes(made[name].data)
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--no-deps",
        "--no-index",
        "--quiet",
        "--target",
        str(tmp_path / "to"),
    ]
    run = subprocess.run([*pip, str(tmp_path / made[name].file_name)], capture_output=True, text=True, timeout=100)
    assert run.returncode == 0, run.stderr
    (found,) = metadata.distributions(path=[str(tmp_path / "to")])
    assert found.version == made[name].version


def test_the_same_bytes_each_time(made: dict[str, Wheel]) -> None:
    assert {wheel.name: wheel.data for wheel in browser_wheels()} == {name: made[name].data for name in NAMES}


def test_nothing_in_it_is_native_or_of_the_desktop(made: dict[str, Wheel]) -> None:
    for wheel in made.values():
        assert not [path for path in wheel.files if path.endswith((".so", ".pyd", ".c", ".pyc"))]
    rooms = {path.split("/")[1] for path in made["wgpu-engine"].files if path.count("/") > 1}
    assert {"platform", "gpu", "files", "text", "ops", "models", "engine", "shaders"} <= rooms
    assert not rooms & {"cli", "server", "quantize", "bundle", "web"}


def test_all_shaders_are_in_it(made: dict[str, Wheel]) -> None:
    shaders = {f"wgpu_engine/shaders/{path.relative_to(resource_dir('shaders')).as_posix()}": path.read_bytes()
               for path in resource_dir("shaders").rglob("*.wgsl")}  # fmt: skip
    assert len(shaders) > 20
    assert shaders.items() <= made["wgpu-engine"].files.items()


def test_what_loads_in_a_browser_is_whole(made: dict[str, Wheel], tmp_path: Path) -> None:
    """A process that has the wheels and the standard library loads models, ops and templates; and has no other home."""
    paths = []
    for wheel in made.values():
        (tmp_path / wheel.file_name).write_bytes(wheel.data)
        zipfile.ZipFile(tmp_path / wheel.file_name).extractall(tmp_path / wheel.name)
        paths.append(str(tmp_path / wheel.name))
    program = (
        "import sys\n"
        f"sys.path[:] = [path for path in sys.path if 'packages' not in path] + {paths!r}\n"
        "import markupsafe, jinja2.sandbox\n"
        "assert markupsafe._escape_inner.__module__ == 'markupsafe._native', markupsafe._escape_inner\n"
        "import wgpu_engine.models.registry, wgpu_engine.text.chat_template, wgpu_engine.engine.scheduler\n"
        "from wgpu_engine.resources import resource_dir\n"
        "assert str(resource_dir('shaders')).startswith(sys.path[-3])\n"
        "print(wgpu_engine.__file__)\n"
    )
    run = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, timeout=100)
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith(str(tmp_path))


def test_no_module_in_it_waits_for_one_that_was_left_out(made: dict[str, Wheel]) -> None:
    """What is imported as a module loads lies in the wheels, or it comes with Pyodide."""
    files = made["wgpu-engine"].files
    modules = {path.removesuffix(".py").replace("/", ".").removesuffix(".__init__") for path in files}
    others = sys.stdlib_module_names | {"jinja2", "markupsafe", "js", "pyodide"}
    for path, data in files.items():
        if not path.endswith(".py"):
            continue
        for node in ast.parse(data).body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                there = name in modules if name.startswith("wgpu_engine") else name.split(".")[0] in others
                assert there, f"{path} imports {name}: leave it out too (DESKTOP_FILES), or import it later"


def test_a_package_that_is_not_installed_is_named() -> None:
    with pytest.raises(BundleError, match="pip install no-such-thing"):
        library_wheel("no-such-thing")


def test_a_package_without_a_list_of_files_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "thing-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(BundleError, match="--force-reinstall thing"):
        library_wheel("thing")


def test_paths_out_of_a_package_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret.py").write_text("secret")
    site = tmp_path / "site"
    info = site / "thing-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "thing").mkdir()
    (site / "thing" / "__init__.py").write_text("fine = True")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n")
    (info / "RECORD").write_text("thing/__init__.py,,\n../secret.py,,\nthing/../../secret.py,,\n")
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])
    wheel = library_wheel("thing")
    assert [path for path in wheel.files if path.endswith(".py")] == ["thing/__init__.py"]


def test_our_own_version_is_in_it() -> None:
    wheel = own_wheel()
    assert wheel.depends == ("jinja2",)
    assert wheel.file_name == f"wgpu_engine-{wheels.wgpu_engine.__version__}-py3-none-any.whl"
