{% set bits, units = 4, 1 %}
{% include "quants/int.wgsl" %}
