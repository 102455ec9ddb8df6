{% set mantissa, bias = 2, 15 %}
{% include "quants/f8.wgsl" %}
