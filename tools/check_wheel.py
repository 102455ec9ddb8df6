"""Run from outside the checkout: is what the wheel installed whole, and does it make a bundle?"""

import subprocess
import sys
import tempfile
from pathlib import Path

import wgpu_engine
from wgpu_engine.bundle.npm import pinned
from wgpu_engine.resources import resource_dir

CHECKOUT = Path(__file__).parent.parent
package = Path(wgpu_engine.__file__).parent
assert package.is_relative_to(Path("site").absolute()), f"imported from {package}, not from the wheel"
for name in ("shaders", "web"):
    assert resource_dir(name) == package / name, f"{name} is not in the wheel"
    for path in (CHECKOUT / name).rglob("*"):
        if path.is_file():
            same = package / name / path.relative_to(CHECKOUT / name)
            assert same.is_file() and same.read_bytes() == path.read_bytes(), f"{path} is not in the wheel"
assert list(resource_dir("shaders").rglob("*.wgsl")), "the wheel has no shaders"
assert all(each.is_in(resource_dir("web") / "vendor") for each in pinned("web")), "the wheel lacks JavaScript libraries"
with tempfile.TemporaryDirectory() as folder:
    bundle = [sys.executable, "-m", "wgpu_engine", "bundle", f"{folder}/out"]
    subprocess.run([*bundle, "--pyodide-dir", str(CHECKOUT / "build" / "pyodide")], check=True)
    for name in ("bundle.json", "service-worker.js", f"pyodide/wgpu_engine-{wgpu_engine.__version__}-py3-none-any.whl"):
        assert (Path(folder) / "out" / name).is_file(), f"the bundle has no {name}"
print(f"the wheel is whole: {package}")
