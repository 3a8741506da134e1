"""``validate_every``: a replayed call beside define-by-run, op by op."""

from __future__ import annotations

from sdbr.errors import ValidationError
from sdbr.trace.recorder import Recorder
from sdbr.trace.values import ARGUMENT, ATTRIBUTE, PARAMETER

import chainer
import numpy as np

#: Largest difference, relative to the largest magnitude of the array, by bytes of the dtype: ten
#: times what a replay may differ from define-by-run, for errors add up inside a call.
TOLERANCES = {2: 5e-2, 4: 1e-3, 8: 1e-10}


class Reference:
    """What define-by-run makes of one call; leaves no other trace than its graph.

    The state of NumPy's global generator, the attributes of the links below `owner` and the
    contents of their arrays are put back. What the call does elsewhere (``static_code``, files)
    happens once more.

    Parameters
    ----------
    function : callable
        With the owner already bound.
    structure, leaves :
        Its arguments.
    owner : chainer.Link or None
    name : str
        Of the callable, for errors.
    """

    def __init__(self, function, structure, leaves, owner, name: str):
        self.name = name
        self.recorder = Recorder()
        self.recorder.kept = []
        saved = _Saved(owner)
        try:
            self.recorder.run(function, structure, leaves, silent=True)
        finally:
            saved.restore()

    def watch(self, schedule, instance):
        """A function of an op's index that compares what the op has just written."""
        nodes = schedule.trace.nodes
        found = self.recorder.trace.nodes
        for i, (a, b) in enumerate(zip(nodes, found, strict=False)):
            if a.label != b.label or [y.shape for y in a.outputs] != [y.shape for y in b.outputs]:
                raise ValidationError(
                    f"{self.name}: function {i} of the schedule is {a.label} at {a.line}; in "
                    f"define-by-run it is {b.label} at {b.line} now: the call is not static"
                )
        if len(nodes) != len(found):
            raise ValidationError(
                f"{self.name}: the schedule has {len(nodes)} functions, define-by-run now makes "
                f"{len(found)}"
            )
        wanted = {}
        arrays = {id(node): kept for node, kept in zip(nodes, self.recorder.kept, strict=True)}
        for lowered in schedule.forward.lowered.nodes:
            for row, array in zip(lowered.ys, arrays[id(lowered.traced)], strict=True):
                wanted[row.index] = (lowered.traced, array, row)
        program, memory = schedule.forward.program, instance.memory

        def compare(i: int) -> None:
            for r in program.operands_of(i)[1]:
                source = int(program.sources[r])
                if source not in wanted:
                    continue
                node, want, row = wanted[source]
                owner = memory.array(row.root.slot.index)
                got = np.ndarray(
                    row.shape, row.dtype, owner, row.root.place + row.offset, row.strides
                )
                problem = difference(got, want)
                if problem:
                    raise ValidationError(
                        f"{self.name}: op {i} of the forward program ({node.label} at {node.line}) "
                        f"differs from define-by-run: {problem}. {program.describe_op(i)}"
                    )

        return compare

    def check_gradients(self, plan, pattern, grad_outputs: list, inputs: list, grads: list) -> None:
        """Compare the gradients of a replayed backward with those of the define-by-run graph."""
        ys = [self.recorder.variables[plan.graph_outputs[i].index] for i in pattern[0]]
        gys = [chainer.Variable(g) for g in grad_outputs]
        # Parameters may be reached through the history of an input, too: that is not this call's.
        histories = [(x.node, x.node._creator_node) for x in inputs]
        try:
            for node, _ in histories:
                node._creator_node = None
            want = chainer.grad(ys, [inputs[i] for i in pattern[1]], gys)
        finally:
            for node, creator in histories:
                node._creator_node = creator
        for i, g, w in zip(pattern[1], grads, want, strict=True):
            value = plan.differentiable[i]
            if value.kind not in (PARAMETER, ARGUMENT, ATTRIBUTE):
                continue  # of the call's own: define-by-run has made another
            if w is None and (g is None or not g.any()):
                continue
            problem = "one is missing" if w is None or g is None else difference(g, w.array)
            if problem:
                raise ValidationError(
                    f"{self.name}: the gradient of {value.kind} "
                    f"{getattr(value.source, 'name', value.source)} differs from "
                    f"define-by-run: {problem}"
                )


def difference(got: np.ndarray, want: np.ndarray) -> str:
    """How two arrays differ beyond rounding; empty when they do not."""
    if got.dtype.kind != "f":
        same = np.array_equal(got, want)
        return "" if same else f"{np.count_nonzero(got != want)} of {want.size} elements"
    if not want.size:
        return ""
    a, b = got.astype("d"), want.astype("d")
    odd = ~(np.isfinite(a) & np.isfinite(b))
    if not np.array_equal(a[odd], b[odd], equal_nan=True):
        return "infinities or NaNs in other places"
    a, b = a[~odd], b[~odd]
    scale = np.abs(b).max(initial=0.0)
    error = np.abs(a - b).max(initial=0.0)
    if error <= TOLERANCES[want.dtype.itemsize] * scale:
        return ""
    return f"by up to {error:.3g}, where the largest magnitude is {scale:.3g}"


class _Saved:
    """Everything that a second run of a call would change, as it is now."""

    def __init__(self, owner):
        self.random = np.random.get_state()
        self.links = [] if owner is None else [(x, dict(x.__dict__)) for x in owner.links()]
        self.contents = []
        for _, attributes in self.links:
            for thing in attributes.values():
                if isinstance(thing, np.ndarray) or type(thing) in (list, dict, set):
                    self.contents.append((thing, thing.copy()))

    def restore(self) -> None:
        np.random.set_state(self.random)
        for link, attributes in self.links:
            link.__dict__.clear()
            link.__dict__.update(attributes)
        for thing, contents in self.contents:
            if isinstance(thing, np.ndarray):
                if thing.flags.writeable:
                    thing[...] = contents
            elif isinstance(thing, list):
                thing[:] = contents
            else:
                thing.clear()
                thing.update(contents)
