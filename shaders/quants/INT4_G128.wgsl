{% set bits, units = 4, 4 %}
{% include "quants/int.wgsl" %}
