{# The values of IQ4_NL and IQ4_XS: llama.cpp, ggml/src/ggml-common.h, kvalues_iq4nl. #}
{% set values = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113] %}
{% include "quants/nibble_values.wgsl" %}
