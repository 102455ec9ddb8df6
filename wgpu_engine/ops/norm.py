"""Norms as dispatches of their own: layer norms, and norms of what a sub-layer makes.

An RMS norm between products needs none: `ops/matmul.py` and `ops/embed.py` write its input along.
"""

from dataclasses import dataclass

from wgpu_engine.gpu.device import Buffer
from wgpu_engine.ops.builder import Activation, Codec, PlanBuilder, ceil_div, op
from wgpu_engine.ops.weight import Norm

_MOST_CLUSTERS = 32


@dataclass(frozen=True)
class _Form:
    """What the shader is told of a norm."""

    kind: str
    eps: float
    bias: bool


def norm_threads(width: int) -> int:
    """Threads that share a row."""
    return 8 * min(_MOST_CLUSTERS, ceil_div(width, 128))


@op
def norm(
    builder: PlanBuilder,
    x: Buffer,
    width: int,
    norm: Norm,
    codec: Codec,
    *,
    in_place: bool = False,
    label: str = "normed",
) -> Activation:
    """The norm of x f32 [rows, width], in `codec`; `label` is that of the scratch memory it is written to.

    With `in_place` x becomes its norm.
    """
    return _normed(builder, [("x", "read_write" if in_place else "read", x)], width, norm, codec, label, in_place)


@op
def residual_norm(
    builder: PlanBuilder,
    x: Buffer,
    y: Buffer | tuple[Buffer, ...],
    width: int,
    norm: Norm | None,
    codec: Codec = "f32",
    *,
    post: Norm | None = None,
    scale: float = 1.0,
    in_place: bool = False,
) -> Activation | None:
    """x += scale * y, or scale * post(y); returns the norm of x in `codec`.

    Without a norm it returns x in `codec`, or None where that would be x itself.
    With `in_place` x then becomes its norm, as where norms stand behind each sum (BERT).
    x and y are f32 [rows, width]. Of several y, as parallel sub-layers make them, all are added; `post` is the first's.
    """
    terms = y if isinstance(y, tuple) else (y,)
    bindings = [("x", "read_write", x), *((f"y{i}", "read", term) for i, term in enumerate(terms))]
    if post is not None:
        bindings += _norm_bindings("post_", post)
    if norm is None:
        h = None
        if codec != "f32":
            h = Activation(builder.activation(width, codec, "normed"), width, codec)
            bindings.append(("h", "read_write", h.buffer))
        _dispatch(builder, bindings, width, None, codec, added=len(terms), post=post, scale=scale)
        return h
    return _normed(builder, bindings, width, norm, codec, "normed", in_place, added=len(terms), post=post, scale=scale)


def _normed(
    builder: PlanBuilder,
    bindings: list[tuple[str, str, Buffer]],
    width: int,
    norm: Norm,
    codec: Codec,
    label: str,
    in_place: bool,
    *,
    added: int = 0,
    post: Norm | None = None,
    scale: float = 1.0,
) -> Activation:
    bindings = [*bindings, *_norm_bindings("", norm)]
    if in_place and codec == "f32":
        h = bindings[0][2]
    else:
        h = builder.activation(width, codec, label)
        bindings.append(("h", "read_write", h))
    _dispatch(builder, bindings, width, norm, codec, added=added, post=post, scale=scale, in_place=in_place)
    return Activation(h, width, codec)


def _norm_bindings(prefix: str, norm: Norm) -> list[tuple[str, str, Buffer]]:
    vectors = [(f"{prefix}gain", "read", norm.gain)]
    return vectors if norm.bias is None else [*vectors, (f"{prefix}bias", "read", norm.bias)]


def _dispatch(
    builder: PlanBuilder,
    bindings: list[tuple[str, str, Buffer]],
    width: int,
    norm: Norm | None,
    codec: Codec,
    *,
    added: int,
    post: Norm | None,
    scale: float,
    in_place: bool = False,
) -> None:
    shader = builder.shader(
        "norm/norm.wgsl",
        f"{norm.kind if norm else 'none'}.{codec}",
        bindings=tuple((name, access) for name, access, _ in bindings),
        width=width,
        codec=codec,
        threads=norm_threads(width),
        norm=_form(norm),
        post=_form(post),
        added=added,
        scale=scale,
        in_place=in_place,
        writes=any(name == "h" for name, _, _ in bindings),
    )
    builder.add(shader, (builder.state, *(buffer for _, _, buffer in bindings)), (builder.rows, 1, 1))


def _form(norm: Norm | None) -> _Form | None:
    return None if norm is None else _Form(norm.kind, norm.eps, norm.bias is not None)
