{% set bits, units = 8, 1 %}
{% include "quants/int.wgsl" %}
