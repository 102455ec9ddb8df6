{# The activation function `gate`. #}
{% if gate == "silu" %}

fn silu(v: vec4<f32>) -> vec4<f32> {
  return v / (1.0 + exp(-v));
}
{% elif gate == "gelu" %}

// v * (1 + erf(v / sqrt 2)) / 2. The polynomial was fitted to erfc(z) * exp(z^2) / t, within 2e-8 of it.
fn gelu(v: vec4<f32>) -> vec4<f32> {
  let z = abs(v) * 0.70710678;
  let t = 1.0 / (1.0 + 0.3 * z);
  var p = vec4<f32>(-0.129434864);
{% for coefficient in (0.485100337, -0.511234645, 0.546404642, -0.0936380409, 0.214439246, 0.14848165, 0.170692047, 0.169189608) %}
  p = fma(p, t, vec4<f32>(${coefficient}));
{% endfor %}
  let tail = 0.5 * t * p * exp(-z * z);
  return v * select(tail, 1.0 - tail, v > vec4<f32>(0.0));
}
{% elif gate == "gelu_tanh" %}

// v * (1 + tanh(u)) / 2 with u = sqrt(2 / pi) * (v + 0.044715 * v^3), which is v / (1 + exp(-2 * u)).
fn gelu_tanh(v: vec4<f32>) -> vec4<f32> {
  let u = 0.79788456 * v * fma(0.044715 * v, v, vec4<f32>(1.0));
  return v / (1.0 + exp(min(-2.0 * u, vec4<f32>(80.0))));
}
{% elif gate == "relu" %}

fn relu(v: vec4<f32>) -> vec4<f32> {
  return max(v, vec4<f32>(0.0));
}
{% elif gate == "relu2" %}

fn relu2(v: vec4<f32>) -> vec4<f32> {
  let positive = max(v, vec4<f32>(0.0));
  return positive * positive;
}
{% endif %}
