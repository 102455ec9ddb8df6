"""Whether a call of an op gives what it should, whatever the op."""

from collections.abc import Awaitable, Callable

from wgpu_engine.ops.builder import Codec, OpCall
from wgpu_engine.ops.known_answers.attention import attend, rope_and_store
from wgpu_engine.ops.known_answers.blocks import FORMATS
from wgpu_engine.ops.known_answers.convolution import short_conv
from wgpu_engine.ops.known_answers.experts import add_experts, gated_experts, route
from wgpu_engine.ops.known_answers.norms import norm, pool, residual_norm
from wgpu_engine.ops.known_answers.products import activated, add_to_residual, embed, gated, look_up, project
from wgpu_engine.ops.known_answers.trial import Stage, Trial
from wgpu_engine.ops.weight import Weight

_ERRORS: dict[str, Callable[[Trial, Stage, OpCall], Awaitable[float]]] = {
    reference.__name__: reference
    for reference in (
        embed,
        look_up,
        project,
        gated,
        activated,
        add_to_residual,
        route,
        gated_experts,
        add_experts,
        norm,
        residual_norm,
        pool,
        rope_and_store,
        attend,
        short_conv,
    )
}
PRECISIONS: dict[Codec, str] = {"f32": "exact", "q8": "fast"}


def weights_of(call: OpCall) -> tuple[Weight, ...]:
    """The weights that a call reads."""
    arguments = call.arguments
    single = arguments.get("weight") or arguments.get("table")
    found: tuple[Weight, ...] = arguments.get("weights") or ((single,) if single else ())
    return found


def is_known(call: OpCall) -> bool:
    """Whether there is a reference for the op and for the types of weights that it reads."""
    return call.op in _ERRORS and all(weight.quant.name in FORMATS for weight in weights_of(call))


async def error_of(trial: Trial, stage: Stage, call: OpCall) -> float:
    """Runs a known call; returns its error."""
    return await _ERRORS[call.op](trial, stage, call)


def kernel_name(stage: Stage, call: OpCall) -> str:
    """What to call the kernels of a call: the op, and what tells its forms apart."""
    arguments = call.arguments
    if call.op == "rope_and_store":
        kind = "none" if arguments["angles"] is None else "neox" if arguments["heads"].neox else "norm"
        return f"rope {kind} {arguments['cache'].kv_type}{_qk_norm(call)}"
    if call.op == "attend":
        forms = {
            "split": len(call.dispatches) > 1,
            "windowed": arguments["window"],
            "capped": arguments["cap"],
            "bidirectional": not arguments["causal"],
            "with sinks": arguments["sinks"],
        }
        form = "".join(f" {name}" for name, on in forms.items() if on)
        return f"attention {arguments['cache'].kv_type}{form} {PRECISIONS[arguments['codec']]}"
    if call.op == "pool":
        return f"pool {arguments['kind']}"
    if call.op in ("norm", "residual_norm"):
        return _norm_name(call)
    if call.op == "short_conv":
        return f"short convolution {PRECISIONS[arguments['codec']]}"
    if call.op == "route":
        return f"route {arguments['used']} of {arguments['experts']}, {_rows(stage.builder.rows)}"
    types = "+".join(sorted({weight.quant.name for weight in weights_of(call)}))
    if call.op == "embed":
        return f"embed {types} {PRECISIONS[arguments['codec']]}"
    if call.op == "look_up":
        return f"embed {types} by {arguments['index']}{', added' if arguments['onto'] else ''}"
    room = stage.builder.outputs if arguments.get("outputs_only") else stage.builder.rows
    name = {
        "project": f"matmul{' capped' if arguments.get('cap') else ' and squares' if arguments.get('squares') else ''}",
        "gated": f"gated {arguments.get('gate')}",
        "activated": f"activated {arguments.get('activation')}",
        "add_to_residual": "residual and norm",
        "gated_experts": f"gated {arguments.get('gate')} experts",
        "add_experts": "sum of experts",
    }[call.op]
    apart = ", apart" if call.op.startswith("gated") and len(weights_of(call)) > 1 else ""
    return f"{name} {types} {PRECISIONS[arguments['a'].codec]}{apart}, {_rows(room)}"


def _rows(room: int) -> str:
    return f"{room} row{'s' if room > 1 else ''}"


def _qk_norm(call: OpCall) -> str:
    if call.arguments["qk_norm"] is None:
        return ""
    return " with norm of rows" if call.arguments["squares"] else " with norm"


def _norm_name(call: OpCall) -> str:
    norm, post, y = (call.arguments.get(name) for name in ("norm", "post", "y"))
    name = f"norm {norm.kind if norm else 'none'} {PRECISIONS[call.arguments['codec']]}"
    name += ", in place" if call.arguments["in_place"] else ""
    if y is None:
        return name
    return f"{name}, residual + {f'{post.kind} norm' if post else len(y) if isinstance(y, tuple) else 1}"
