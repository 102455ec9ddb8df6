"""WGSL from the templates in shaders/, for the dialect of either compiler.

Templates are Jinja2 with `${ value }` for values, since WGSL itself may contain double braces. naga (wgpu-py) refuses
the `enable` line for subgroups that Tint (browsers, Dawn) demands, so it is added here and never written in a template.
"""

import re
from functools import cache
from typing import Any

import jinja2

from wgpu_engine.gpu.device import Shader
from wgpu_engine.resources import resource_dir

_TINT_SUBGROUPS = "enable subgroups;\ndiagnostic(off, subgroup_uniformity);\n"
"""Our subgroup operations run in control flow that is uniform in fact, but depends on values read from buffers."""
_BINDING = re.compile(r"@group\(0\)\s*@binding\((\d+)\)\s*var<(uniform|storage(?:\s*,\s*(read|read_write))?)>")


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(resource_dir("shaders")),
        variable_start_string="${",
        variable_end_string="}",
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )


def assemble(template: str, *, dialect: str, label: str = "", **values: Any) -> Shader:
    """The shader that `shaders/<template>` makes of `values`, for dialect "naga" or "tint".

    `values` must be hashable: plans ask for the same shader once a layer, and get it from a cache. `label` tells it
    from its siblings in messages.
    """
    name = template.removesuffix(".wgsl")
    return Shader(f"{name}:{label}" if label else name, _render(template, dialect, tuple(values.items())))


@cache
def _render(template: str, dialect: str, values: tuple[tuple[str, Any], ...]) -> str:
    source = _environment().get_template(template).render(dict(values))
    if dialect == "tint" and "subgroup" in source:
        return _TINT_SUBGROUPS + source
    return source


@cache
def binding_types(source: str) -> tuple[str, ...]:
    """The buffer type of each binding, by its number: "uniform", "read-only-storage" or "storage"."""
    found = {
        int(number): "uniform" if space == "uniform" else "storage" if access == "read_write" else "read-only-storage"
        for number, space, access in _BINDING.findall(source)
    }
    assert sorted(found) == list(range(len(found))), "bindings must be numbered from 0 without gaps"
    return tuple(found[number] for number in range(len(found)))
