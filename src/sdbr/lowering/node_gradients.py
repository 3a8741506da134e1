"""The gradients of one lowered node as instructions."""

from __future__ import annotations

from sdbr.base.errors import SdbrError
from sdbr.functions import registry
from sdbr.functions.half import SINGLE
from sdbr.lowering.python_op import PythonBackward, Sum
from sdbr.program.buffers import Row
from sdbr.program.builder import Builder


def added(builder: Builder, a: Row, b: Row) -> Row:
    """The sum of two gradients."""
    if a.dtype in registry.FLOATS:
        return builder.elementwise("add", a, b)
    if a.dtype == registry.HALF == b.dtype:
        total = builder.elementwise("add", builder.cast(a, SINGLE), builder.cast(b, SINGLE))
        return builder.cast(total, registry.HALF)
    total = builder.new(a.shape, a.dtype)
    builder.emit("python", [a, b], [total], ints=(0, 2), obj=Sum())
    return total


def _silent(seen: dict, given: tuple) -> set:
    """The inputs that get no gradient: what gave none gives none for fewer outputs, either."""
    return set().union(
        *(
            inputs
            for more, inputs in seen.items()
            if all(m or not g for m, g in zip(more, given, strict=True))
        )
    )


def node_gradients(
    lowered, builder: Builder, gys, targets, python: PythonBackward | None = None
) -> list[Row | None]:
    """Emit the gradients of one node.

    Parameters
    ----------
    lowered : LoweredNode
    builder : Builder
    gys : list of Row or None
        Gradients of its outputs.
    targets : tuple of int
        The inputs whose gradients are wanted.
    python : PythonBackward, optional
        What to run where the node has no function row.

    Returns
    -------
    list of Row or None
        One per target.
    """
    if lowered.function_row is not None:
        xs, ys = _seen(lowered, builder)
        grads = lowered.function_row.backward(builder, lowered.node, xs, ys, gys, targets)
        return [grads[i] for i in targets]
    of = lowered.of
    if of is not None and of.function_row is not None:
        return _second_gradients(lowered, builder, gys, targets)
    if lowered.python is None or not lowered.python.keep_graph:
        raise SdbrError(
            f"{lowered.traced.label}: a backward was asked for, but the forward keeps no graph"
        )
    present = tuple(g is not None for g in gys)
    silent = _silent(lowered.traced.silent, present)
    wanted = [i for i in targets if python is not None or i not in silent]
    gives_none = not wanted
    if gives_none:
        if not lowered.traced.own:
            return [None] * len(targets)
        wanted = list(targets)  # the user's code may add to gradients itself
    given = [i for i, g in enumerate(gys) if g is not None]
    ins = [gys[i] for i in given]
    outs = [builder.new(lowered.xs[i].shape, lowered.xs[i].dtype) for i in wanted]
    backward = python or PythonBackward(
        lowered.python,
        wanted,
        given,
        silent=None if gives_none else lowered.traced.silent.setdefault(present, set()),
        own=lowered.traced if lowered.traced.own else None,
        written=lowered.gap.written(builder, lowered.traced.outputs, lowered.ys),
        read=lowered.gap.written(builder, lowered.traced.inputs, lowered.xs),
    )
    builder.emit("python", ins, outs, ints=(0, len(ins)), obj=backward)
    made = {} if gives_none else dict(zip(wanted, outs, strict=True))
    return [made.get(i) for i in targets]


def _seen(lowered, builder: Builder) -> tuple[list[Row], list[Row]]:
    """The inputs and outputs of a node as its backward sees them."""
    traced, seen = lowered.traced, lowered.gap.seen
    if builder is lowered.gap.forward:  # nobody has come in between
        return list(lowered.xs), list(lowered.ys)
    xs = [seen(builder, *pair) for pair in zip(traced.inputs, lowered.xs, strict=True)]
    ys = [seen(builder, *pair) for pair in zip(traced.outputs, lowered.ys, strict=True)]
    return xs, ys


def _second_gradients(lowered, builder: Builder, gys, targets) -> list[Row | None]:
    """Gradients of a native gradient: its inputs are gy and then the inputs of the function."""
    of = lowered.of
    if 0 not in targets:
        return [None] * len(targets)
    if of.function_row.diagonal:
        (g,) = of.function_row.backward(builder, of.node, of.xs, of.ys, gys, (0,))
    else:
        there = dict(zip(lowered.traced.targets, gys, strict=True))
        rows = [there.get(i) for i in range(len(of.xs))]
        full = [
            builder.fill(x.shape, x.dtype, 0.0) if row is None else row
            for row, x in zip(rows, of.xs, strict=True)
        ]
        again = of.function_row.pushed or of.function_row.forward
        (g,) = again(builder, of.node, full)
    return [g if i == 0 else None for i in targets]
