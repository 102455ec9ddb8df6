{# A word of the type's look-up table: behind the planes, or bound for itself where `uniform_grid` says so. #}
fn grid_word(i: u32) -> u32 {
{% if uniform_grid %}
  return grid_table[i >> 2u][i & 3u];
{% else %}
  return word(GRID + i);
{% endif %}
}
