{# A chunk of raw blocks, the plane that it goes to, and their `shape`: rows of the chunk, first row in the plane, start of
   the plane, words between its rows, bytes in its rows, bytes between rows of the chunk, number of the tensor.

   Of tensors with floats that can't be kept `flaws` holds the highest number: first where there are NaN or infinite ones,
   then where there are some that are too large for halves. #}
@group(0) @binding(0) var<storage, read> raw: array<u32>;
@group(0) @binding(1) var<storage, read_write> plane: array<u32>;
@group(0) @binding(2) var<storage, read> shape: array<u32>;
{% if floats %}
@group(0) @binding(3) var<storage, read_write> flaws: array<atomic<u32>>;
{% endif %}
