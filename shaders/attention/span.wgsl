{# The positions that a row sees: all from `first_seen` to `last_seen`. Needs `row_position.wgsl`. #}
fn last_seen(row: u32) -> u32 {
  return ${"row_position" if causal else "row_sees"}(row);
}

// `last` is what last_seen returned.
fn first_seen(last: u32) -> u32 {
{% if window %}
  return max(last + 1u, ${window}u) - ${window}u;
{% else %}
  return 0u;
{% endif %}
}
