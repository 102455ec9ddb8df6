"""Imports go one way, and the core loads where there is no NumPy, wgpu or tokenizers."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import wgpu_engine

PACKAGE = Path(wgpu_engine.__file__).parent
FLOORS = [
    {"platform"},
    {"gpu"},
    {"files", "text"},
    {"quantize"},
    {"ops"},
    {"models"},
    {"engine"},
    {"server", "bundle", "browser"},
    {"cli"},
]
"""a room may import itself and what lies on lower floors"""
NATIVE = {"numpy", "wgpu", "wgpudawn", "tokenizers", "gguf"}
"""libraries that browsers lack"""
HOMES = {"wgpu": "gpu", "wgpudawn": "gpu", "tokenizers": "platform"}
"""the one room that knows a library"""
MODULES = sorted(PACKAGE.rglob("*.py"))


@dataclass(frozen=True)
class Import:
    module: str
    line: int
    at_load: bool
    """whether loading the module runs it"""


def imports(path: Path) -> Iterator[Import]:
    """Everything that a module imports, also within functions; what only type checkers read is left out."""

    def visit(node: ast.AST, at_load: bool) -> Iterator[Import]:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for child in node.orelse:
                yield from visit(child, at_load)
            return
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno, at_load)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports name the package in full"
            assert node.module is not None
            yield Import(node.module, node.lineno, at_load)
            if node.module == "wgpu_engine":
                for alias in node.names:
                    yield Import(f"wgpu_engine.{alias.name}", node.lineno, at_load)
        inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            yield from visit(child, at_load and not inside)

    yield from visit(ast.parse(path.read_text()), True)


def room_of(path: Path) -> str:
    """The room that a file is in; empty for those of the package itself."""
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else ""


def floor(room: str) -> int:
    return next(number for number, rooms in enumerate(FLOORS) if room in rooms)


def test_every_room_has_its_floor() -> None:
    rooms = {room_of(path) for path in MODULES} - {""}
    assert rooms <= set().union(*FLOORS)
    assert len(rooms) >= 8


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_imports_go_one_way(path: Path) -> None:
    room = room_of(path)
    if not room:
        return
    for found in imports(path):
        parts = found.module.split(".")
        if parts[0] != "wgpu_engine" or len(parts) == 1:
            continue
        other = parts[1]
        if not (PACKAGE / other).is_dir():
            continue
        assert other == room or floor(other) < floor(room), f"line {found.line}: {room} imports {other}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_native_libraries_stay_at_home(path: Path) -> None:
    """What is native loads late, except in files that only the desktop loads."""
    room = room_of(path)
    desktop = room in ("cli", "quantize") or path.name == "native.py" or path.name == "tokenizers_encoder.py"
    for found in imports(path):
        library = found.module.split(".")[0]
        if library in HOMES:
            assert room == HOMES[library], f"line {found.line}: {room} knows {library}"
        if library in NATIVE and not desktop:
            assert not found.at_load, f"line {found.line}: {library} is imported when the module loads"


def test_rooms_hold_no_code_of_their_own() -> None:
    """It would load with each of their modules. The server, which has few, names the application that others mount."""
    for path in PACKAGE.glob("*/__init__.py"):
        if path.parent.name != "server":
            assert not path.read_text().strip(), path


def test_the_core_loads_without_native_libraries() -> None:
    """Everything that browsers share, in a process where the libraries can't be imported."""
    shared = [
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        for path in MODULES
        if room_of(path) in {"ops", "models", "gpu"} and path.name != "native.py" and path.name != "__init__.py"
    ]
    program = (
        "import sys\n"
        f"for name in {sorted(NATIVE)!r}: sys.modules[name] = None\n"
        "import importlib\n"
        f"for name in {shared!r}: importlib.import_module(name)\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    assert len(shared) > 15
