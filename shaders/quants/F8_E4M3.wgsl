{% set mantissa, bias = 3, 7 %}
{% include "quants/f8.wgsl" %}
