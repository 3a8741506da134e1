"""From a trace to the instructions of its forward, node by node."""

from __future__ import annotations

import collections
import copy
import dataclasses

from sdbr.base.errors import SdbrError
from sdbr.functions import half, registry
from sdbr.lowering import python_only
from sdbr.lowering.gap import Gap, keeps
from sdbr.lowering.node_attributes import structural_arrays
from sdbr.lowering.node_gradients import node_gradients
from sdbr.lowering.numpy_calls import lower_call
from sdbr.lowering.numpy_views import gives_view
from sdbr.lowering.python_op import (
    Answer,
    Copied,
    NumpyCall,
    PythonBackward,
    PythonForward,
    user_array,
)
from sdbr.lowering.repeated import without_repeats
from sdbr.lowering.selection import live_nodes
from sdbr.lowering.value_rows import ValueRows
from sdbr.lowering.windows import HandedOut, apart, window
from sdbr.program.buffers import ARENA, BOUND, OWNED, BufferTable, Row
from sdbr.program.builder import Builder, ControlSlot
from sdbr.trace import values as v
from sdbr.trace.arrays._scalars import KINDS
from sdbr.trace.effects.side_effects import StaticCode
from sdbr.trace.gradients import GradientNode
from sdbr.trace.questions import Question

import numpy as np


@dataclasses.dataclass(eq=False)
class LoweredNode:
    """A traced node with its place in the program.

    Attributes
    ----------
    traced : TracedNode
    function_row : type[FunctionRow] or None
        None for a Python op.
    node : Node
    xs, ys : list of Row
    reason : str
        Why it is a Python op, or a part of it.
    python : PythonForward or PythonBackward or None
    of : LoweredNode or None
        What this node is the gradient of.
    gap : Gap or None
    """

    traced: v.TracedNode
    function_row: type[registry.FunctionRow] | None
    node: registry.Node | None
    xs: list
    ys: list
    reason: str = ""
    python: object = None
    of: LoweredNode | None = None
    gap: Gap | None = None


class Forward(ValueRows):
    """The forward of a trace as instructions.

    Attributes
    ----------
    nodes : list of LoweredNode
    control_base : int
        Where the scalars of the trace begin in the control block.
    gap : Gap
        The time between this program and its backward, unless they are `together`.
    writes_left : collections.Counter
        Root row -> how many writes into an array of a link are still to come.
    """

    def __init__(
        self,
        trace: v.Trace,
        table: BufferTable,
        keep_graph: bool,
        control_base: int = 0,
        together: bool = False,
    ):
        super().__init__(trace, table, Builder(table))
        self.control_base = control_base
        self.keep_graph = keep_graph
        self.nodes: list[LoweredNode] = []
        self.gap = Gap(self.builder, together or not keep_graph)
        self.n_questions = 0
        self._copies: set[int] = set()  # rows that were sent, and are results as well
        self.structural = {r for r, _ in structural_arrays(trace)}
        gradients = [node for node in trace.nodes if isinstance(node, GradientNode)]
        self.differentiated = {id(node.of) for node in gradients}
        self.differentiated_twice = {id(node.of) for node in gradients if node.backprop}
        self.function_rows = registry.Lookups()
        nodes = without_repeats(live_nodes(trace), trace, self.function_rows)
        self.writes_left = collections.Counter(
            self.operand(v.first_of(node)).index for node in nodes if node.lasting
        )
        for node in nodes:
            self._lower(node)

    def again(self, nodes: set[int], inputs: list, builder: Builder) -> dict[int, LoweredNode]:
        """Lower some traced nodes, by id, once more: what they make is made anew.

        Parameters
        ----------
        nodes : set of int
        inputs : list of Value
            What they are given, as the user has it by now.
        builder : Builder
            Of the backward.

        Returns
        -------
        dict
            Id of the traced node -> LoweredNode.
        """
        other = copy.copy(self)
        other.builder, other.nodes, other.rows = builder, [], dict(self.rows)
        other.host_rows = dict(self.host_rows)
        other.gap = Gap(builder, True)
        every = [lowered.traced for lowered in self.nodes if id(lowered.traced) in nodes]
        for traced in every:
            for y in traced.outputs:
                other.rows.pop(y.index, None)
        for value in inputs:
            base = value.source if value.kind == v.ALIAS else value
            row = self.row(base)
            other.rows[base.index] = self.gap.seen(builder, base, row)
            other.rows[value.index] = self.gap.seen(builder, value, row)
        for traced in every:
            other._lower(traced)
        return {id(lowered.traced): lowered for lowered in other.nodes}

    def _lower(self, traced: v.TracedNode) -> None:
        self.builder.at(traced.label, traced.line, self.names.of_node(traced))
        if isinstance(traced, GradientNode):
            self._lower_gradient(traced, [self.row(x) for x in traced.inputs])
        elif type(traced) is Question:
            self._lower_question(traced, *traced.inputs)
        elif traced.function is None:
            self._lower_code(traced)
        elif any(x.host for x in (*traced.inputs, *traced.outputs)):
            self._lower_python(traced, "it takes or gives an array of the host")
        else:
            self._lower_function(traced, [self.row(x) for x in traced.inputs])

    def _lower_question(self, traced: Question, asked: v.Value) -> None:
        """Ends the run where the answer is another one."""
        b, dtype = self.builder, np.dtype(bool if traced.kind is bool else np.int64)
        if asked.host:
            x = self.table.on_host(ARENA, asked.shape, dtype, "what is asked")
            b.emit("python", [self.host_row(asked)], [x], ints=(0, 1), obj=Answer())
        else:
            x = b.cast(self.row(asked), dtype)
        b.emit("question", [x], [], ints=(traced.answer, self.n_questions))
        self.n_questions += 1

    def _lower_code(self, traced: v.TracedNode) -> None:
        """What is no function node: a NumPy call, a draw, code that runs every time."""
        b = self.builder
        xs, ys = self._lower_natively(traced)
        if ys is not None:
            ys = self._as_they_were(traced, ys)
            self._finish(LoweredNode(traced, None, None, xs, ys))
            return
        xs = [self.operand(x) for x in traced.inputs]
        in_place = traced.lasting and traced.inputs[0].host
        ys = xs[:1] if in_place else [self.new(y) for y in traced.outputs]
        if traced.effect:
            places = {scalar: self._control(scalar) for _, _, scalar in traced.scalars}
            obj = StaticCode(traced, places)
        else:
            obj = NumpyCall(traced)
        b.emit("python", xs, ys, ints=(0, len(xs)), obj=obj)
        if traced.lasting and not in_place:
            b.copy_to(ys[0], xs[0])
            ys = xs[:1]
        reason = getattr(traced.call[0], "reason", _why_python(traced))
        self._finish(LoweredNode(traced, None, None, xs, ys, reason))

    def _lower_natively(self, traced: v.TracedNode) -> tuple[list, list | None]:
        """The ops of a call, where it is no Python op: operands, and results or None."""
        b = self.builder
        if not traced.inputs and traced.call[0] in KINDS:
            return [], [self._lower_number(traced)]
        if traced.effect or any(y.host for y in traced.outputs):
            return [], None
        before = len(b.instructions), dict(self.rows), list(self.staged)
        xs = [self.row(x) for x in traced.inputs]
        ys = lower_call(b, traced, xs)
        if ys is None and any(x.host for x in traced.inputs):
            # The code takes them as they are.
            n, self.rows, self.staged = before
            del b.instructions[n:]
        if ys is None:
            return xs, None
        sent = {self.rows[x.index].index for x in traced.inputs if x.host and x.index in self.rows}
        if len(ys) == 1 and ys[0].index in sent - self._copies:
            self._copies.add(ys[0].index)  # which is a copy of its own, once
        elif traced.copies or not (traced.lasting or gives_view(traced.call)):
            ys = apart(b, ys, xs)
        return xs, ys

    def _as_they_were(self, traced: v.TracedNode, ys: list) -> list:
        """`ys` for good: parts of what the call writes in place are copied, but for views of it."""
        if traced.lasting:
            self.writes_left -= collections.Counter([ys[0].index])
            return ys
        views = self.trace.windows
        changing = {row.index for value, row in self.bound if value.held and value.index in views}
        return [
            self.builder.copy(y) if y.root.index in changing and x.index not in views else y
            for x, y in zip(traced.outputs, ys, strict=True)
        ]

    def _lower_number(self, traced: v.TracedNode) -> Row:
        """A float that each call reads anew, and that others compute with."""
        _, (number,), _ = traced.call
        for _, _, scalar in traced.scalars:
            number = ControlSlot(self._control(scalar), number, scalar.name)
        return self.builder.fill((), np.float64, number)

    def _lower_function(self, traced: v.TracedNode, xs: list) -> None:
        """A function node: by its function row; a Python op without one, or where it declines."""
        function = registry.function_of(traced.function)
        node = registry.Node(
            function,
            tuple([x.shape for x in traced.inputs]),
            tuple([x.dtype for x in traced.inputs]),
            tuple([y.shape for y in traced.outputs]),
            tuple([y.dtype for y in traced.outputs]),
            tuple([x.requires_grad for x in traced.inputs]),
            train=traced.train,
        )
        node.gap, node.overwritten = self.gap, self._overwritten(traced)
        node.handed_out = tuple(name for name, _ in traced.states)
        function_row = half.row_for(self.function_rows[type(function)], node, self.table.machine)
        reason = self._why_not_native(traced, function_row, node)
        if reason is None:
            reason = self._slots(node, function_row, traced)
            for name, _, scalar in traced.scalars:
                value = getattr(function, name)
                node.slots[name] = ControlSlot(self._control(scalar), value, scalar.name)
        reason = reason or half.why_not(function_row, node)
        if reason is None and self.table.machine.lacks:
            reason = self._why_lacking(function_row, node, xs)
        if reason is None:
            self._lower_native(traced, function_row, node, xs)
        else:
            self._lower_python(traced, reason)

    def _overwritten(self, traced: v.TracedNode) -> dict[int, Row]:
        """Arrays of links that a node is given and the call writes later: copies as they are now.

        By root row. Its backward finds what is written then, which may not be what Chainer's reads.
        """
        if not self.writes_left:
            return {}
        given = [self.operand(x) for x in traced.inputs]
        given += [self.operand(x) for r in traced.rebind for x in r.values if x.kind != v.CONSTANT]
        roots = {row.root.index: row.root for row in given}
        return {i: self.builder.copy(root) for i, root in roots.items() if i in self.writes_left}

    def _why_not_native(self, traced: v.TracedNode, function_row, node) -> str | None:
        """Why no function row takes the node, before its attributes are looked at."""
        if function_row is None:
            kind = type(registry.function_of(traced.function))
            return getattr(traced.function, "reason", None) or python_only.reason_of(kind)
        if id(traced) in self.differentiated_twice and not function_row.differentiates_twice():
            return "the call differentiates its gradient"
        if self.table.machine.draws_once and function_row.draws and not function_row.draws_once:
            return "its draws are those of CuPy"
        if not set(node.handed_out) <= set(function_row.states):
            return f"its {node.handed_out[0]} is handed out"
        return function_row.reason(node)

    def _why_lacking(self, function_row, node, xs: list) -> str | None:
        """Which of the ops of a function the machine cannot run, or None."""
        trial = copy.copy(node)
        trial.state = {}
        builder = Builder(self.table)
        trial.gap = Gap(builder, True)  # nothing is kept for it
        ys = list(function_row.forward(builder, trial, xs))
        wanted = tuple(i for i, requires_grad in enumerate(node.requires_grad) if requires_grad)
        if wanted and self.keep_graph and any(y.dtype.kind == "f" for y in ys):
            gys = [builder.new(y.shape, y.dtype) if y.dtype.kind == "f" else None for y in ys]
            function_row.backward(builder, trial, xs, ys, gys, wanted)
        lacks = self.table.machine.lacks
        missing = [i.op.name for i in builder.instructions if i.op.name in lacks]
        return f"op {missing[0]} has no kernel there" if missing else None

    def _lower_native(self, traced: v.TracedNode, function_row, node, xs: list) -> None:
        """The ops of the forward of a function row."""
        ys = list(function_row.forward(self.builder, node, xs))
        if not function_row.views:
            ys = apart(self.builder, ys, xs)
        ys += [node.state[name] for name in node.handed_out]
        for y, value in zip(ys, traced.outputs, strict=True):
            if y.shape != value.shape or y.dtype != value.dtype:
                raise SdbrError(f"{traced.label}: the function row made {y!r} for {value!r}")
        self._finish(LoweredNode(traced, function_row, node, xs, ys, node.python))

    def _lower_python(self, traced: v.TracedNode, reason: str) -> None:
        """An island of define-by-run."""
        b, xs = self.builder, [self.operand(x) for x in traced.inputs]
        # An array that nobody knows stays on the node itself.
        rebind = [r for r in traced.rebind if any(x.kind != v.CONSTANT for x in r.values)]
        ins = xs + [self.operand(value) for r in rebind for value in r.values]
        ys = [self.new(y) for y in traced.outputs]
        scalars = [(name, inner, self._control(s)) for name, inner, s in traced.scalars]
        slots = [user_array(row) for row in ins]
        keep_graph = self.keep_graph or id(traced) in self.differentiated
        forward = PythonForward(traced, keep_graph, rebind, slots, scalars)
        b.emit("python", ins, ys, ints=(0, len(ins)), obj=forward)
        self._finish(LoweredNode(traced, None, None, xs, ys, reason, forward))

    def _lower_gradient(self, traced: GradientNode, xs: list) -> None:
        """Gradients that the call itself takes: the backward of the function, here."""
        of = next(lowered for lowered in self.nodes if lowered.traced is traced.of)
        gys: list[Row | None] = [None] * len(of.ys)
        for i, g in zip(traced.given, xs, strict=False):
            gys[i] = g
        python, reason = None, ""
        if of.function_row is None:
            python = PythonBackward(of.python, traced.targets, traced.given, traced.backprop)
            reason = of.reason
        rows = node_gradients(of, self.builder, gys, traced.targets, python)
        ys = [
            self.builder.fill(y.shape, y.dtype, 0.0) if row is None else row
            for row, y in zip(rows, traced.outputs, strict=True)
        ]
        self._finish(LoweredNode(traced, None, None, xs, ys, reason, python, of))

    def _slots(self, node, function_row, traced) -> str | None:
        """Give the function row the arrays on its node as rows; why that cannot be, or None."""
        old = node.function is not traced.function
        for r in traced.rebind:
            if r in self.structural:
                continue
            if r.name in function_row.nested and r.inner == old:
                reason = self._nested(node, r)
                if reason is not None:
                    return reason
                continue
            known = r.name in function_row.arrays
            if not known or r.inner != old or type(r.structure) is not v.Hole:
                return f"attribute {r.name!r} holds an array"
            value = r.values[0]
            behind = value.source if value.kind == v.ALIAS else value
            if r.name in function_row.updated and behind.kind in (v.RESULT, v.CONSTANT):
                return f"its {r.name} is an array that the call made, or of unknown origin"
            node.slots[r.name] = self.row(value)
        return None

    def _nested(self, node, r) -> str | None:
        """Give the function row an attribute with rows in the place of arrays; why not, or None."""
        if any(x.dtype.kind == "b" for x in r.values):
            return "a mask beside an index of the call"  # its shape depends on values
        rows = [self.row(x) for x in r.values]

        def filled(thing):
            if type(thing) is v.Hole:
                return rows[thing.index]
            return type(thing)(map(filled, thing)) if type(thing) in (tuple, list) else thing

        node.slots[r.name] = filled(r.structure)
        return None

    def _control(self, scalar) -> int:
        return self.control_base + self.trace.scalars.index(scalar)

    def _finish(self, lowered: LoweredNode) -> None:
        lowered.gap = self.gap
        self.nodes.append(lowered)
        for value, row in zip(lowered.traced.outputs, lowered.ys, strict=True):
            self.hold(value, row)

    def outputs(self, values: list[v.Value], forward_views: bool = True) -> HandedOut:
        """Put `values` on memory that is handed to the user.

        Where Chainer gives views of one memory, and somebody can tell, so does a replay: results
        that lie on the memory of an argument, parameter or attribute, several on one memory, and
        one that is a part of what a backward may read. An op writes to the memory of a result
        directly where it fills a whole arena row; else the value is copied.
        """
        found = HandedOut([], {}, [])
        mates = collections.Counter(
            self.operand(value).root.index for value in values if not value.is_scalar
        )
        for value in values:
            row = self.operand(value)
            root = row.root
            kind = ARENA if root.slot is None else root.slot.kind
            if kind == ARENA and value.host:
                root.slot.kind = OWNED  # it has memory of its own
                found.places.append((value, root.slot.index, value.shape, value.dtype))
                continue
            is_whole = row.offset == 0 and row.nbytes == root.nbytes and row.is_contiguous
            shared = False
            if keeps() and not value.is_scalar:
                if kind == BOUND:
                    shared = True
                elif kind in (ARENA, OWNED):
                    seen = not is_whole and not self.gap.together
                    shared = kind == OWNED or seen or mates[root.index] > 1
            if shared:
                if root.slot is None:
                    name = f"memory of output {value.index}"
                    root.slot = self.table.slot(OWNED, root.shape, root.dtype, name)
                    found.hidden.append((root.slot.index, root.shape, root.dtype))
                found.views[value.index] = window(row, value.writeable)
                slot = root.slot
            else:
                slot = self._output(value, row, is_whole and forward_views).slot
            found.places.append((value, slot.index, value.shape, value.dtype))
        self.gap.note_results(found.places)
        return found

    def _output(self, value: v.Value, row: Row, direct: bool) -> Row:
        """A row of the user's own for `value`."""
        name = f"output {value.index}"
        if value.host:
            owned = self.table.on_host(OWNED, row.shape, row.dtype, name)
            self.builder.emit("python", [row], [owned], ints=(0, 1), obj=Copied())
            return owned
        owned = self.table.owned(row.shape, row.dtype, name)
        if direct and value.kind in (v.RESULT, v.ALIAS) and row.root.slot is None:
            row.root.slot = owned.slot
            return owned
        self.gap.note_copy(row, owned)
        self.builder.at("output")
        self.builder.emit("copy", [row], [owned])
        return owned


def _why_python(traced: v.TracedNode) -> str:
    """Why code that is no function of Chainer's is a Python op."""
    if traced.effect:
        return "code that runs every time"
    return "a draw of NumPy's generator" if traced.draws else "a NumPy call of user code"
