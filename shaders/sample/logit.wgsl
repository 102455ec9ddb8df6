{# Keys of a row's logits, and how the row is cut into runs. Needs the binding `logits`, as bits. A run is RUN_UNITS units
   in a row; a workgroup of LANES has the largest key of each, its peak, to find its way by. #}
{% include "sample/key.wgsl" %}

const RUN_UNITS = ${run_units}u;
const RUNS = ${runs}u;
const PEAK_UNITS = ${peak_units}u;
