"""New sizes: the trace of a call that differs from two known ones in one size alone.

What in two traces of the same code is alike is a constant, and what is not must be a multiple of
the size in both; the trace for a third size is made of the first by that rule. All nodes are of
functions (`FUNCTIONS`) of which this is known to hold for every size of 2 and more, and function
rows and op table compute each shape anew from those of the inputs: where these differ from the
rule, nothing is built.
"""

from __future__ import annotations

import copy
import dataclasses
import time
from typing import Any

from sdbr.audit._budget import AuditCount
from sdbr.devices.arrays import ARRAYS, device_of, on_device, on_host
from sdbr.functions import registry
from sdbr.lowering.forward import Forward
from sdbr.program.buffers import BufferTable
from sdbr.program.machine import Machine
from sdbr.schedule.schedule import Schedule
from sdbr.trace import values as v
from sdbr.trace._node_copies import inner_function
from sdbr.trace.arrays._scalars import (
    Condition,
    Derived,
    Scalar,
    ScalarArgument,
    ScalarAttribute,
)
from sdbr.trace.code.generators import UNWATCHED
from sdbr.trace.code.places import Place
from sdbr.trace.values import Trace, TracedNode, Value

import chainer
import numpy as np

#: Classes below ``chainer.functions`` whose nodes hold for every size.
FUNCTIONS = frozenset({
    "activation.clipped_relu.ClippedReLU", "activation.elu.ELU",
    "activation.hard_sigmoid.HardSigmoid", "activation.leaky_relu.LeakyReLU",
    "activation.log_softmax.LogSoftmax", "activation.relu.ReLU", "activation.sigmoid.Sigmoid",
    "activation.softmax.Softmax", "activation.softplus.Softplus", "activation.swish.Swish",
    "activation.tanh.Tanh", "array.concat.Concat", "array.expand_dims.ExpandDims",
    "array.reshape.Reshape", "array.transpose.Transpose",
    "connection.convolution_2d.Convolution2DFunction",
    "connection.deconvolution_2d.Deconvolution2DFunction", "connection.embed_id.EmbedIDFunction",
    "connection.linear.LinearFunction", "evaluation.accuracy.Accuracy",
    "loss.huber_loss.HuberLoss", "loss.mean_absolute_error.MeanAbsoluteError",
    "loss.mean_squared_error.MeanSquaredError", "loss.sigmoid_cross_entropy.SigmoidCrossEntropy",
    "loss.softmax_cross_entropy.SoftmaxCrossEntropy", "loss.squared_error.SquaredError",
    "math.average.Mean", "math.basic_math.Absolute", "math.basic_math.Add",
    "math.basic_math.AddConstant", "math.basic_math.Div", "math.basic_math.DivFromConstant",
    "math.basic_math.Mul", "math.basic_math.MulConstant", "math.basic_math.MultiAdd",
    "math.basic_math.Neg", "math.basic_math.PowVarConst", "math.basic_math.Sub",
    "math.basic_math.SubFromConstant", "math.clip.Clip", "math.exponential.Exp",
    "math.exponential.Log", "math.identity.Identity", "math.logarithm_1p.Log1p",
    "math.matmul.BatchMatMul", "math.matmul.MatMul", "math.maximum.Maximum",
    "math.minimum.Minimum", "math.sqrt.Sqrt", "math.square.Square", "math.sum.Sum",
    "math.trigonometric.Cos", "math.trigonometric.Sin", "noise.dropout.Dropout",
    "normalization.batch_normalization.BatchNormalization",
    "normalization.batch_normalization.FixedBatchNormalization",
    "normalization.layer_normalization.LayerNormalization",
    "pooling.average_pooling_2d.AveragePooling2D", "pooling.max_pooling_nd.MaxPoolingND",
})  # fmt: skip
#: What a forward leaves on its node for Chainer's own backward, and no function row reads.
_LEFT = frozenset({"_impl", "coeff", "_coeff", "multiplier", "inv_std", "inv_var", "count"})
_BASE = "chainer.functions."
_SMALLEST = 2  # one row broadcasts, none is empty


class Differs(Exception):
    """Two traces differ in more than a size; internal."""


class Coincides(Exception):
    """A size is, in this very call, that of something else, too; internal."""


class Sample:
    """What is kept of a traced schedule that others are built of: not its programs and memory."""

    def __init__(self, schedule: Schedule):
        self.key, self.trace, self.guards = schedule.key, schedule.trace, schedule.guards
        self.keep_graph, self.line = schedule.keep_graph, schedule.line
        self.reuse, self.low_memory = schedule.reuse, schedule.low_memory


@dataclasses.dataclass(eq=False)
class Family:
    """Two traced schedules, and those that are built of them for other sizes.

    Attributes
    ----------
    one, other : Sample
    proven : bool
        Whether a call of one that was built has been as define-by-run.
    refused : bool
        Whether nothing (more) is built.
    count : AuditCount
        Of the replays of all that are built: there may be many of few replays each.
    """

    one: Sample
    other: Sample
    proven: bool = False
    refused: bool = False
    count: AuditCount = dataclasses.field(default_factory=AuditCount)


def size_of(key, one, other) -> tuple[int, int, int] | None:
    """The sizes of three calls that are alike but for one size: of `one`, of `other`, of `key`."""
    if key[0] != one[0] or one[0] != other[0] or key[2:] != one[2:] or one[2:] != other[2:]:
        return None
    if not len(key.arrays) == len(one.arrays) == len(other.arrays):
        return None
    found = set()
    for k, a, b in zip(key.arrays, one.arrays, other.arrays, strict=True):
        if k[3] not in (*ARRAYS, chainer.Variable) or not k[1:] == a[1:] == b[1:]:
            return None
        if not len(k[0]) == len(a[0]) == len(b[0]):
            return None
        found |= {(x, y, z) for x, y, z in zip(a[0], b[0], k[0], strict=True) if not x == y == z}
    if len(found) != 1:
        return None
    (sizes,) = found
    return sizes if min(sizes) >= _SMALLEST and len(set(sizes)) == 3 else None


def may_be_sized(schedule: Schedule) -> bool:
    """Whether the trace of a schedule may be one of two that others are built of."""
    trace = schedule.trace
    # Code that asks no size draws from nothing: the thread of a progress bar is no matter.
    unwatched = any(text != UNWATCHED for text in trace.unwatched)
    return (
        schedule.asks_no_size
        and schedule.family is None
        and schedule.dynamic is None
        and not schedule.double
        and not (trace.numbers or trace.stores or trace.forgotten or unwatched)
        and not trace.shared
        and not schedule.guards.changed
        and all(_is_listed(node) for node in trace.nodes)
    )


def _is_listed(node: TracedNode) -> bool:
    if type(node) is not TracedNode or node.function is None or not node.applied:
        return False
    kind = type(node.function)
    name = f"{kind.__module__}.{kind.__qualname__}"
    plain = inner_function(node.function) is None and not (node.own or node.effect or node.states)
    listed = name.startswith(_BASE) and name[len(_BASE) :] in FUNCTIONS
    return plain and listed and registry.row_of(node.function) is not None


def sized_trace(family: Family, sizes: tuple[int, int, int]) -> Trace:
    """The trace for the third of `sizes`, of those for the first two.

    Raises
    ------
    Differs
        If they differ in more than that.
    """
    return _Third(family.one.trace, family.other.trace, sizes).trace()


class _Third:
    """Goes through two traces side by side, and makes a third."""

    def __init__(self, one: Trace, other: Trace, sizes: tuple[int, int, int]):
        self.one, self.other = one, other
        self.a, self.b, self.c = sizes
        self.values: dict[int, Value] = {}
        self.nodes: dict[int, TracedNode] = {}
        self.pairs: dict[int, TracedNode] = {}
        self.constants: set[int] = set()
        self.made: set[int] = set()

    def trace(self) -> Trace:
        """The third trace.

        Raises
        ------
        Differs
        """
        one, other = self.one, self.other
        for name in ("values", "nodes", "writes", "reports", "scalars", "conditions", "floats"):
            if len(getattr(one, name)) != len(getattr(other, name)):
                raise Differs(name)
        trace = copy.copy(one)
        self.pairs = {id(n): m for n, m in zip(one.nodes, other.nodes, strict=True)}
        trace.values = [self.value(x, y) for x, y in zip(one.values, other.values, strict=True)]
        trace.nodes = [self.node(n, m) for n, m in zip(one.nodes, other.nodes, strict=True)]
        for value in trace.values:
            if value.kind == v.RESULT:
                value.source = (self.nodes[id(value.source[0])], value.source[1])
        trace.result = self.handed(one.result, other.result)
        trace.writes = [self.write(x, y) for x, y in zip(one.writes, other.writes, strict=True)]
        trace.reports = [self.report(x, y) for x, y in zip(one.reports, other.reports, strict=True)]
        for name in ("scalars", "conditions", "floats"):
            if not all(map(_is_same_float, getattr(one, name), getattr(other, name))):
                raise Differs(name)
        # A size that happens to be that of something else could be another thing to Chainer.
        if self.made & self.constants:
            raise Coincides
        return trace

    def same(self, x, y, *names: str) -> None:
        """See to it that two things are alike in these attributes."""
        for name in names:
            if getattr(x, name) != getattr(y, name):
                raise Differs(name)

    def value(self, x: Value, y: Value) -> Value:
        """The same array in the third call."""
        self.same(
            x, y, "index", "kind", "dtype", "requires_grad", "shown", "unchained", "is_variable",
            "is_scalar", "number", "held", "writeable",
        )  # fmt: skip
        made = self.values[x.index] = copy.copy(x)
        made.shape = self.shape(x.shape, y.shape)
        if x.kind == v.ARGUMENT:
            self.same(x, y, "source")
        elif x.kind == v.RESULT:
            if self.pairs.get(id(x.source[0])) is not y.source[0] or x.source[1] != y.source[1]:
                raise Differs("source")
        elif x.kind == v.ALIAS:
            if x.source.index != y.source.index:
                raise Differs("alias")
            made.source = self.values[x.source.index]
        elif x.kind == v.CONSTANT:
            made.source = self.constant(x.source, y.source, made.shape)
        elif x.shape != y.shape or not _is_same_place(x.source, y.source):
            raise Differs("captured state")
        return made

    def constant(self, x, y, shape: tuple):
        """An array of nobody known: the same for all sizes, or one number everywhere."""
        here, there = on_host(x), on_host(y)
        if here.shape == there.shape:
            if here.tobytes() != there.tobytes():
                raise Differs("constant")
            return x
        first = here.ravel()[:1]
        for array in (here, there):
            if not array.size or array.tobytes() != first.tobytes() * array.size:
                raise Differs("constant")
        made = np.full(shape, first[0], x.dtype)
        return made if device_of(x) is None else on_device(made, device_of(x))

    def node(self, x: TracedNode, y: TracedNode) -> TracedNode:
        """The same function in the third call."""
        self.same(x, y, "backprop", "train", "label", "draws", "accumulates", "caught")
        if type(x.function) is not type(y.function) or x.config != y.config:
            raise Differs("function")
        made = copy.copy(x)
        self.nodes[id(x)] = made
        made.inputs = self.known(x.inputs, y.inputs)
        made.outputs = self.known(x.outputs, y.outputs)
        made.rebind = [self.rebinding(r, s) for r, s in zip_same(x.rebind, y.rebind)]
        made.scalars = list(x.scalars)
        for s, z in zip_same(x.scalars, y.scalars):
            if s[:2] != z[:2] or self.one.scalars.index(s[2]) != self.other.scalars.index(z[2]):
                raise Differs("scalars")
        made.silent = dict(x.silent)
        loose = {name for name, _, _ in x.scalars} | {r.name for r in x.rebind}
        made.template = self.function(x.template, y.template, loose)
        made.function = self.function(x.function, y.function, loose)
        return made

    def rebinding(self, x, y):
        """The same arrays on a node."""
        self.same(x, y, "name", "inner")
        if type(x.structure) is not v.Hole or type(y.structure) is not v.Hole:
            raise Differs("arrays on a node")
        return dataclasses.replace(x, values=self.known(x.values, y.values))

    def known(self, xs: list, ys: list) -> list[Value]:
        """The same arrays."""
        if [x.index for x in xs] != [y.index for y in ys]:
            raise Differs("inputs")
        return [self.values[x.index] for x in xs]

    def function(self, x, y, loose: set):
        """A node with what it holds for the third size; `loose` are attributes seen elsewhere."""
        made = type(x).__new__(type(x))
        made.__dict__.update(x.__dict__)
        if x.__dict__.keys() != y.__dict__.keys():
            raise Differs("attributes")
        for name, thing in x.__dict__.items():
            if name in _LEFT:
                del made.__dict__[name]
            elif name not in loose:
                made.__dict__[name] = self.thing(thing, y.__dict__[name])
        return made

    def thing(self, x, y) -> Any:
        """What an attribute of a node is for the third size."""
        kind = type(x)
        if kind is not type(y):
            raise Differs("type")
        if kind is int:
            return self.number(x, y)
        if kind in (tuple, list):
            if len(x) != len(y):
                raise Differs("length")
            return kind(self.thing(i, j) for i, j in zip(x, y, strict=True))
        if kind is slice and x == y == slice(None):
            return x
        if kind is float and repr(x) != repr(y):
            return self.fraction(x, y)
        if x is y or (kind in (bool, str, float, np.dtype, np.float64) and repr(x) == repr(y)):
            return x
        if kind.__module__.startswith("numpy.dtypes") and x == y:
            return x
        raise Differs(kind.__name__)

    def number(self, x: int, y: int) -> int:
        """A constant, or a multiple of the size."""
        if x == y:
            self.constants.add(x)
            return x
        if x % self.a or y != x // self.a * self.b:
            raise Differs("a number")
        times = x // self.a
        self.made.add(times * self.c)
        return times * self.c

    def fraction(self, x: float, y: float) -> float:
        """One over a multiple of the size."""
        times = round(1 / (x * self.a)) if x else 0
        if times < 1 or x != 1.0 / (times * self.a) or y != 1.0 / (times * self.b):
            raise Differs("a float")
        return 1.0 / (times * self.c)

    def shape(self, x: tuple, y: tuple) -> tuple:
        """The shape for the third size."""
        if len(x) != len(y):
            raise Differs("dimensions")
        return tuple(self.number(i, j) for i, j in zip(x, y, strict=True))

    def handed(self, x, y) -> Any:
        """What is returned, reported or assigned."""
        if type(x) is not type(y):
            raise Differs("result")
        if isinstance(x, Value):
            (made,) = self.known([x], [y])
            return made
        if type(x) in (tuple, list):
            return type(x)([self.handed(i, j) for i, j in zip_same(x, y)])
        if type(x) is dict:
            if list(x) != list(y):
                raise Differs("result")
            return {k: self.handed(x[k], y[k]) for k in x}
        if x is y or (isinstance(x, (int, float, str, bool)) and repr(x) == repr(y)):
            return x
        raise Differs("result")

    def write(self, x, y):
        """The same write to a link."""
        if x.link is not y.link:
            raise Differs("link")
        self.same(x, y, "name", "n_reports")
        return dataclasses.replace(x, value=self.handed(x.value, y.value))

    def report(self, x, y):
        """The same report."""
        if x.observer is not y.observer:
            raise Differs("observer")
        return dataclasses.replace(x, items=self.handed(x.items, y.items))


def zip_same(xs, ys):
    """Pairs of two lists of one length."""
    if len(xs) != len(ys):
        raise Differs("length")
    return zip(xs, ys, strict=True)


def _is_same_place(x, y) -> bool:
    """Whether a parameter or the place of captured state is the same."""
    if type(x) is tuple and type(y) is tuple:
        return len(x) == len(y) and all(map(_is_same_place, x, y))
    if type(x) is type(y) is Place:
        return x.key == y.key
    return x is y or (isinstance(x, str) and x == y)


def _is_same_float(x, y) -> bool:
    """Whether two floats that are followed, or comparisons of them, are the same."""
    if type(x) is not type(y) or (isinstance(x, Scalar) and x.kind is not y.kind):
        return False
    if isinstance(x, ScalarAttribute):
        return _is_same_place((x.link, x.attribute), (y.link, y.attribute))
    if isinstance(x, ScalarArgument):
        return x.position == y.position
    if isinstance(x, Condition) and x.outcome != y.outcome:
        return False
    if isinstance(x, (Condition, Derived)):
        alike = x.function is y.function and len(x.parts) == len(y.parts)
        return alike and all(map(_is_same_float, x.parts, y.parts))
    return not isinstance(x, Scalar) and repr(x) == repr(y)


def sized_schedule(key, family: Family, sizes: tuple[int, int, int]) -> Schedule:
    """The schedule for the third of `sizes`; no program is built yet.

    Parameters
    ----------
    key : CallKey
    family : Family
    sizes : tuple of int
        See `size_of`.

    Raises
    ------
    Differs
        If the two of the family differ in more than the size, or not all of it is native.
    Coincides
        If this very size cannot be built.
    """
    one = family.one
    trace = sized_trace(family, sizes)
    _check_shapes(trace, one.keep_graph)
    schedule = Schedule(key, trace, one.keep_graph, key.backend)
    schedule.reuse, schedule.low_memory = one.reuse, one.low_memory
    schedule.guards = one.guards.again()
    schedule.family = family
    schedule.line, schedule.created = one.line, time.time()
    return schedule


def _check_shapes(trace: Trace, keep_graph: bool) -> None:
    """See to it that function rows and op table come to the shapes that the trace has.

    Whatever a GPU has no kernels for: what runs there in their place is what was lowered here.
    """
    try:
        lowered = Forward(trace, BufferTable(Machine()), keep_graph)
    except Exception as error:
        raise Coincides from error
    if any(node.reason or node.python or node.function_row is None for node in lowered.nodes):
        raise Differs("a Python op")
