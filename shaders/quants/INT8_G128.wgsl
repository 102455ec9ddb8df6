{% set bits, units = 8, 4 %}
{% include "quants/int.wgsl" %}
