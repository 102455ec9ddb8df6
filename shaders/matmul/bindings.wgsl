@group(0) @binding(0) var<storage, read> w: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> state: array<u32>;
@group(0) @binding(2) var<storage, read> a: array<vec4<${"u32" if codec == "q8" else "f32"}>>;
{% for name, declaration in extra_bindings %}
@group(0) @binding(${loop.index + 2}) var<${declaration[0] if declaration[0] == "uniform" else "storage, " ~ declaration[0]}> ${name}: ${declaration[1]};
{% endfor %}
{% include "state.wgsl" %}
{% include "quants/common.wgsl" %}
