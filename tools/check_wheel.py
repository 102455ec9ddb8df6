"""Run from outside the checkout: is what the wheel installed whole?"""

from pathlib import Path

import wgpu_engine
from wgpu_engine.resources import resource_dir

package = Path(wgpu_engine.__file__).parent
assert package.is_relative_to(Path("site").absolute()), f"imported from {package}, not from the wheel"
for name in ("shaders", "web"):
    assert resource_dir(name) == package / name, f"{name} is not in the wheel"
assert list(resource_dir("shaders").rglob("*.wgsl")), "the wheel has no shaders"
print(f"the wheel is whole: {package}")
