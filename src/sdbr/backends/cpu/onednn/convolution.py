"""Convolutions as sequences of primitives, in the ways that are worth a try.

All operands of an op are C-contiguous. In the way ``plain`` the library works on them as they are
(weights apart, where it likes another layout), in ``blocked`` and ``last`` it gets copies in the
layout that suits it best, or with the channels last, and gives its result back the same way.
"""

from __future__ import annotations

import dataclasses

from sdbr.backends.cpu.onednn import _onednn
from sdbr.backends.cpu.onednn import primitives as p
from sdbr.backends.cpu.onednn.library import OneDNN
from sdbr.base.errors import BackendError

FORWARD, GRAD_X, GRAD_W = "convolution", "convolution_grad_x", "convolution_grad_w"
WAYS = ("plain", "blocked", "last")
_TRAINING, _DIRECT = 64, 1

# Per op, for x, w and y: what the library calls them; and which of the three is the result.
_KEYS = {
    FORWARD: ((p.SRC, p.WEIGHTS, p.DST), 2),
    GRAD_X: ((p.DIFF_SRC, p.WEIGHTS, p.DIFF_DST), 0),
    GRAD_W: ((p.SRC, p.DIFF_WEIGHTS, p.DIFF_DST), 1),
}


@dataclasses.dataclass(frozen=True)
class Convolution:
    """One convolution, or one of its gradients, on C-contiguous float32 arrays.

    Attributes
    ----------
    op : str
        `FORWARD`, `GRAD_X` (of x, and what a deconvolution computes) or `GRAD_W`.
    x, w, y : tuple of int
        Shapes: ``x[n, c, *spatial]``, ``w[o, c / groups, *kernel]``, ``y[n, o, *spatial]``.
    stride, pad, dilate : tuple of int
        Per spatial axis; dilation 1 is none.
    groups : int
    bias : bool
        Whether a bias is added to the result.
    relu : bool
        Whether negative results become 0.
    accumulate : bool
        Whether the result is added to what is there.
    """

    op: str
    x: tuple[int, ...]
    w: tuple[int, ...]
    y: tuple[int, ...]
    stride: tuple[int, ...]
    pad: tuple[int, ...]
    dilate: tuple[int, ...]
    groups: int = 1
    bias: bool = False
    relu: bool = False
    accumulate: bool = False

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        n = 2 * self.y[0] * self.y[1]
        for length in (*self.y[2:], *self.w[1:]):
            n *= length
        return n

    def describe(self) -> str:
        """All of it in one line: the key of what was measured."""
        parts = [
            f"x{_by(self.x)}",
            f"w{_by(self.w)}",
            f"s{_by(self.stride)}",
            f"p{_by(self.pad)}",
            f"d{_by(self.dilate)}",
            f"g{self.groups}",
            f"y{_by(self.y)}",
        ]
        flags = [name for name in ("bias", "relu", "accumulate") if getattr(self, name)]
        return " ".join([self.op, *parts, *flags])

    def flat(self) -> Convolution:
        """The same with as few spatial axes as there are, two at least."""
        c = self
        while len(c.x) > 4 and c.x[2] == c.w[2] == c.y[2] == 1 and c.pad[0] == 0:
            c = dataclasses.replace(
                c,
                x=c.x[:2] + c.x[3:],
                w=c.w[:2] + c.w[3:],
                y=c.y[:2] + c.y[3:],
                stride=c.stride[1:],
                pad=c.pad[1:],
                dilate=c.dilate[1:],
            )
        return c


def _by(numbers) -> str:
    return "x".join(map(str, numbers))


def sequence(library: OneDNN, problem: Convolution, way: str, threads: int) -> _onednn.Sequence:
    """The primitives for `problem` in one way; operands are those of the op, in its order.

    Raises
    ------
    BackendError
        If the library has none for it.
    """
    problem = problem.flat()
    if any(n == 0 for n in (*problem.x, *problem.w, *problem.y)):
        raise BackendError("oneDNN is not asked for empty arrays")

    def make(threads):
        return library.with_threads(threads, lambda: _steps(library, problem, way))

    return _onednn.Sequence(make, threads, _finish(problem))


def _finish(problem: Convolution):
    """What our own loop does to the result.

    The bias of a gradient, which the library does not know; relu, because the library's makes 0 of
    NaN; a sum, for which the result lies at the start of the scratch memory.
    """
    bias = problem.bias and problem.op == GRAD_X
    if not (bias or problem.relu or problem.accumulate):
        return None
    shape = {FORWARD: problem.y, GRAD_X: problem.x, GRAD_W: problem.w}[problem.op]
    inner = 1
    for n in shape[2:]:
        inner *= n
    numbers = (int(problem.relu), shape[0], shape[1], inner)
    return 2 + problem.bias, (2 if bias else -1), *numbers, (0 if problem.accumulate else -1)


def _steps(library: OneDNN, problem: Convolution, way: str):
    keys, result = _KEYS[problem.op]
    shapes = (problem.x, _grouped(problem), problem.y)
    descriptor = _descriptor(library, problem, way, shapes)
    # Operands of the op: what is read in the order x, w, y, then the bias, then the result.
    read = [i for i in ((2, 1) if problem.op == GRAD_X else (0, 1, 2)) if i != result]
    place = {i: p.operand(k) for k, i in enumerate(read)}
    place[result] = p.operand(2 + problem.bias)
    steps = p.Steps(library)
    if problem.accumulate:
        place[result] = steps.space(p.plain(library, shapes[result]))
    arguments = []
    last = None
    for i in (0, 1, 2):
        inside = library.layout_of(descriptor, p.QUERY[keys[i]])
        outside = p.plain(library, shapes[i])
        where = place[i]
        if not library.equal(inside, outside):
            where = steps.space(inside)
            if i == result:
                last = (inside, where, outside, place[i])
            else:
                steps.reorder(outside, place[i], inside, where)
        arguments.append((keys[i], inside, where))
    if problem.bias and problem.op == FORWARD:
        arguments.append((p.BIAS, p.plain(library, (problem.y[1],)), p.operand(2)))
    steps.add(descriptor, arguments)
    if last is not None:
        steps.reorder(*last)
    return steps.steps, steps.scratch


def _grouped(problem: Convolution) -> tuple[int, ...]:
    """The shape of the weights as the library counts it: groups are an axis of their own."""
    g = problem.groups
    o, *rest = problem.w
    return (o, *rest) if g == 1 else (g, o // g, *rest)


def _descriptor(library: OneDNN, problem: Convolution, way: str, shapes):
    descriptor = _any_descriptor(library, problem, way, shapes)
    name = library.name_of(descriptor)
    if "ref" in name:
        raise BackendError(f"oneDNN has only its reference for it ({name})")
    return descriptor


def _any_descriptor(library: OneDNN, problem: Convolution, way: str, shapes):
    layout = {"plain": p.plain, "blocked": p.chosen, "last": p.channels_last}[way]
    weights = p.chosen(library, shapes[1])
    data = [layout(library, shapes[0]), weights, layout(library, shapes[2])]
    # Rows and columns that no window covers are as good as padding that is not there.
    right = [
        max((y - 1) * s + (k - 1) * d + 1 - x - before, 0)
        for y, s, k, d, x, before in zip(
            problem.y[2:],
            problem.stride,
            problem.w[2:],
            problem.dilate,
            problem.x[2:],
            problem.pad,
            strict=True,
        )
    ]
    window = (
        p.dims(problem.stride),
        p.dims([d - 1 for d in problem.dilate]),
        p.dims(problem.pad),
        p.dims(right),
    )
    engine, attributes = library.engine.address, library.attributes.address

    def forward(x, w, y, bias=None):
        return library.create(
            "primitive_desc",
            "convolution_forward_primitive_desc_create",
            engine,
            _TRAINING,
            _DIRECT,
            x.address,
            w.address,
            None if bias is None else bias.address,
            y.address,
            *window,
            attributes,
        )

    if problem.op == FORWARD:
        return forward(*data, p.plain(library, (problem.y[1],)) if problem.bias else None)
    hint = forward(*[p.chosen(library, shape) for shape in shapes])
    x, w, y = (each.address for each in data)
    name = "data" if problem.op == GRAD_X else "weights"
    return library.create(
        "primitive_desc",
        f"convolution_backward_{name}_primitive_desc_create",
        engine,
        _DIRECT,
        x,
        w,
        *([None] if problem.op == GRAD_W else []),
        y,
        *window,
        hint.address,
        attributes,
    )
