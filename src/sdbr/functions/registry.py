"""The function table: Chainer node class -> ops for its forward and for each wanted gradient.

A function row is a class with three static methods, registered under the dotted name
of the Chainer class. What it works on are rows of the buffer table: `Row`, always called so::

    @function('chainer.functions.activation.relu.ReLU')
    class ReLU(FunctionRow):
        def forward(b, node, xs):
            return [b.elementwise('relu', xs[0])]

        def backward(b, node, xs, ys, gys, wanted):
            return [b.elementwise('relu_grad', ys[0], gys[0])]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sdbr.devices.arrays import on_host
from sdbr.program.buffers import Row
from sdbr.program.builder import Builder, ControlSlot
from sdbr.trace._node_copies import inner_function
from sdbr.trace.nodes import methods_of

import numpy as np

FLOATS = (np.dtype("f4"), np.dtype("f8"))
HALF = np.dtype("f2")


class Node:
    """What a function row sees of one traced function node.

    Attributes
    ----------
    function : chainer.FunctionNode
        The node as it was before its first forward: its class and its attributes
        (never arrays of the call: those reach it as rows). For an old-style ``Function``
        the function itself.
    in_shapes, in_dtypes, out_shapes, out_dtypes : tuple
        Of inputs and outputs.
    requires_grad : tuple of bool
        Per input, while tracing.
    slots : dict
        Attribute name -> `ControlSlot` of a watched float, or `Row` of an array attribute whose
        contents are known to change (a parameter, a persistent value, an argument).
    state : dict
        Rows (and anything else) that `forward` leaves for `backward`.
    handed_out : tuple of str
        Arrays that the node keeps and the call hands out: `forward` leaves them in `state`.
    train : bool
        ``chainer.config.train`` at that moment.
    python : str
        Why a part of it is a Python op after all; `forward` says so.
    gap : Gap or None
        What knows about the time between forward and backward.
    overwritten : dict of int to Row
        Arrays among the inputs that the call itself writes before the backward: root row index ->
        a copy as the forward saw it.
    """

    __slots__ = (
        "function",
        "gap",
        "handed_out",
        "in_dtypes",
        "in_shapes",
        "out_dtypes",
        "out_shapes",
        "overwritten",
        "python",
        "requires_grad",
        "slots",
        "state",
        "train",
    )

    def __init__(
        self,
        function,
        in_shapes,
        in_dtypes,
        out_shapes,
        out_dtypes,
        requires_grad,
        slots=None,
        train=True,
    ):
        self.function = function
        self.in_shapes = in_shapes
        self.in_dtypes = in_dtypes
        self.out_shapes = out_shapes
        self.out_dtypes = out_dtypes
        self.requires_grad = requires_grad
        self.slots = slots or {}
        self.state: dict = {}
        self.handed_out: tuple[str, ...] = ()
        self.train = train
        self.python = ""
        self.gap = None
        self.overwritten: dict[int, Row] = {}

    def scalar(self, attribute: str) -> float | ControlSlot:
        """A number on the node: a control slot when it is a watched float, else the value."""
        slot = self.slots.get(attribute)
        if slot is not None:
            return slot
        return float(getattr(self.function, attribute))

    def rounded(self, b: Builder, row: Row) -> Row:
        """`row` as an array of Chainer's there would hold it: in float16 there are fewer digits."""
        return row

    def array(self, b: Builder, attribute: str, dtype) -> Row:
        """An array on the node in this dtype: the row it is known as, else a constant."""
        row = self.slots.get(attribute)
        if row is not None:
            return b.cast(row, dtype)
        return b.constant(np.asarray(on_host(getattr(self.function, attribute)), dtype))

    def may_change(self, b: Builder, *rows: Row) -> bool:
        """Whether user code can write one of `rows` between the forward and the backward `b`."""
        if any(row.root.index in self.overwritten for row in rows):
            return True
        return self.gap is not None and self.gap.may_change(b, rows)

    def may_be_written(self, row: Row) -> bool:
        """The same of a row in the forward, for any backward."""
        if row.root.index in self.overwritten:
            return True
        return self.gap is not None and self.gap.may_be_written(row)

    def kept(self, b: Builder, row: Row) -> Row:
        """`row` as the forward saw it, for the backward `b`: where Chainer's reads no input again.

        A copy where user code could write it in between.
        """
        root = self.overwritten.get(row.root.index)
        if root is not None:
            return b.table.view(root, row.shape, row.strides, row.offset)
        return row if self.gap is None else self.gap.kept(b, row)

    def held(self, row: Row) -> Row:
        """The array that the forward gave out as `row`: where Chainer's holds on to that array.

        What is written to it is seen, another array of its Variable is not.
        """
        return row if self.gap is None else self.gap.held(row)


class FunctionRow:
    """Base of all function rows; the methods are called on the class.

    Attributes
    ----------
    arrays : tuple of str
        Attributes of the node that hold arrays and that are read through ``node.array``.
        A node with an array in any other attribute is a Python op.
    nested : tuple of str
        Attributes that may hold arrays in tuples or lists; ``node.slots`` has the attribute with a
        row in the place of each.
    structural : tuple of str
        Attributes that may hold an array whose values decide about shapes: taken as they were
        when the program was built, and compared at every call.
    scalars : tuple of str
        Attributes that may hold a float and that are read through ``node.scalar`` alone:
        their value may be another in every call.
    positive : tuple of str
        Those of `scalars` where positive or not, finite or not, makes a difference to it.
    typed : tuple of str
        Those of `scalars` for which a NumPy scalar may decide about dtypes.
    updated : tuple of str
        Those of `arrays` that the forward writes to: arrays of the user alone.
    states : tuple of str
        Arrays that the forward leaves on the node and that the call may hand out: `forward`
        puts the row of each into ``node.state`` under that name.
    checks : bool
        It raises `IndexError` for integers that are out of range.
    views : bool
        Where the row of an output lies on the memory of an input, so does Chainer's output; else it
        is copied.
    """

    checks: bool = False
    views: bool = False

    #: Whether the gradient is ``gy`` times what does not depend on the input where it has a
    #: derivative, element by element: a gradient of the gradient is taken by `backward`, too.
    diagonal: bool = False
    #: Whether it takes float16 as well: it computes in float32 then (`sdbr.functions.half`). It
    #: leaves no array on the node, its outputs are no views of inputs, and nothing that it computes
    #: on the way would overflow in float16 where its outputs do not. Of what `Node` says about the
    #: time before the backward, it asks `may_change` alone about its inputs.
    half: bool = False
    #: The inputs that have to be float32 then, as statistics are, by number.
    singles: tuple[int, ...] = ()
    #: Those of `scalars` that Chainer rounds to the dtype of the input.
    rounds: tuple[str, ...] = ()
    #: Whether the output is a linear function of all inputs: `forward` takes gradients of the
    #: gradient.
    linear: bool = False
    #: What takes gradients of the gradient where the output is a linear function of the inputs but
    #: for a choice or a constant: ``pushed(b, node, xs)``, like `forward` with that choice kept and
    #: without that constant.
    pushed: Callable | None = None
    #: Whether nothing is hidden when the gradient is differentiated: Chainer's backward of this
    #: class applies functions to retained Variables, and uses no other arrays, and no numbers that
    #: change from call to call. Inside a call these functions are recorded then, one by one.
    #: It is said of each class of Chainer: a function row does not inherit it (`is_transparent`).
    transparent: bool = False
    #: Whether the forward draws random numbers: it is not the same when it runs again.
    draws: bool = False
    #: Whether it draws a number of single precision for each element where arrays are CuPy's.
    draws_once: bool = False
    arrays: tuple[str, ...] = ()
    nested: tuple[str, ...] = ()
    structural: tuple[str, ...] = ()
    scalars: tuple[str, ...] = ()
    positive: tuple[str, ...] = ()
    typed: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    states: tuple[str, ...] = ()

    @classmethod
    def differentiates_twice(cls) -> bool:
        """Whether gradients of the gradient can be native."""
        return bool(cls.diagonal or cls.linear or cls.pushed)

    @staticmethod
    def reason(node: Node) -> str | None:
        """Why this very node cannot be native, or None when it can.

        The default accepts float32 and float64 inputs of one dtype.
        """
        return float_reason(node)

    @staticmethod
    def forward(b: Builder, node: Node, xs: Sequence[Row]) -> list[Row]:
        """Emit the forward; one row per output. A row may be a view of an input."""
        raise NotImplementedError

    @staticmethod
    def backward(b: Builder, node: Node, xs, ys, gys, wanted) -> list[Row | None]:
        """Emit the gradients of the inputs whose index is in `wanted`.

        Parameters
        ----------
        b : Builder
            Of the backward program.
        xs, ys : list of Row
            Inputs and outputs of the forward.
        gys : list of Row or None
            Gradient of each output; None where there is none (at least one is there).
        wanted : tuple of int

        Returns
        -------
        list of Row or None
            One entry per input. None: no gradient. Shape and dtype are those of the input.
        """
        raise NotImplementedError


def float_reason(node: Node, inputs: Sequence[int] | None = None) -> str | None:
    """None when the inputs share one native float dtype, else the reason."""
    dtypes = [node.in_dtypes[i] for i in (range(len(node.in_dtypes)) if inputs is None else inputs)]
    for d in dtypes:
        if d not in FLOATS:
            return f"dtype {d.name} has no native kernels"
    if len(set(dtypes)) > 1:
        return "inputs of mixed dtypes: " + ", ".join(d.name for d in dtypes)
    return None


_table: dict[str, type[FunctionRow]] = {}


def function(name: str):
    """Register a function row under the dotted name of a Chainer node class."""

    def register(row: type[FunctionRow]) -> type[FunctionRow]:
        if name in _table:
            raise ValueError(f"{name} has two rows")
        _table[name] = row
        return row

    return register


def lookup(function_class: type) -> type[FunctionRow] | None:
    """The function row of a node class, or None. Subclasses have one of their own or none.

    Neither has a class whose methods somebody has replaced: its nodes are Python ops.
    """
    row = _table.get(_dotted(function_class))
    return row if row is None or all(map(_is_chainers, methods_of(function_class))) else None


class Lookups(dict):
    """Node class -> what `lookup` says of it, for as long as nobody can replace its methods."""

    def __missing__(self, function_class: type) -> type[FunctionRow] | None:
        row = self[function_class] = lookup(function_class)
        return row


def _is_chainers(method) -> bool:
    name = getattr(method, "__globals__", {}).get("__name__", "")
    return name.partition(".")[0] in ("chainer", "sdbr")


def _dotted(function_class: type) -> str:
    return f"{function_class.__module__}.{function_class.__qualname__}"


def function_of(node):
    """What a function row is about: a function node, or the old-style ``Function`` behind it."""
    return inner_function(node) or node


def row_of(node) -> type[FunctionRow] | None:
    """The function row of a function node, or None."""
    return lookup(type(function_of(node)))


#: Packages of Chainer's functions that draw nothing, but for some of their modules.
_DRAWING_NOTHING = ("activation", "array", "connection", "math", "normalization", "pooling")
_BUT_FOR = ("rrelu", "simplified_dropconnect")


def draws(function_class: type) -> bool:
    """Whether the forward of a node class draws random numbers: its function row says so.

    Without one, every function may but for Chainer's in packages that are known.
    """
    row = lookup(function_class)
    if row is not None:
        return row.draws
    chainers, _, rest = function_class.__module__.partition("chainer.functions.")
    package, _, module = rest.partition(".")
    return bool(chainers) or package not in _DRAWING_NOTHING or module in _BUT_FOR


#: Functions without a function row that are transparent, all of them gradients.
_TRANSPARENT_WITHOUT_ROW = frozenset(
    f"chainer.functions.{name}"
    for name in (
        "activation.log_softmax.LogSoftmaxGrad",
        "activation.softmax._SoftmaxGrad",
        "activation.softplus.SoftplusGrad",
        "activation.swish.SwishGrad",
        "math.trigonometric.ArccosGrad",
        "math.trigonometric.ArcsinGrad",
        "math.trigonometric.ArctanGrad",
        "math.trigonometric.CosGrad",
        "math.trigonometric.SinGrad",
    )
)


def is_transparent(function_class: type) -> bool:
    """Whether the gradient of a node class hides nothing when it is differentiated.

    Its own function row says so; without one it hides something, but for gradients that are known.
    """
    row = lookup(function_class)
    if row is not None:
        return vars(row).get("transparent", False)
    return _dotted(function_class) in _TRANSPARENT_WITHOUT_ROW


def registered() -> dict[str, type[FunctionRow]]:
    """All function rows by dotted class name (a copy)."""
    return dict(_table)
