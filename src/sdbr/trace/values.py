"""What a trace is made of: values, nodes and effects."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from sdbr.base.reasons import Reason

import chainer
import numpy as np

ARGUMENT, PARAMETER, ATTRIBUTE, RESULT, CONSTANT = (
    "argument",
    "parameter",
    "attribute",
    "result",
    "constant",
)
ALIAS = "alias"

#: Stands for the value of an attribute that a link does not have itself.
ABSENT = type("Absent", (), {"__repr__": lambda self: "ABSENT", "__slots__": ()})()

#: What lies in any Variable or Parameter: anything else there the user has put there. (Not by
#: ``dir``, which takes away that all of a class share the keys of their dictionaries.)
OF_VARIABLES = frozenset({
    *chainer.Variable(np.zeros(1)).__dict__, *chainer.Parameter(np.zeros(1)).__dict__,
    "_has_chainerx_array",
})  # fmt: skip


class Value:
    """One array that flows through a trace.

    Attributes
    ----------
    index : int
        Position in ``Trace.values``.
    kind : str
        ``argument``, ``parameter``, ``attribute`` (captured state or a
        persistent), ``result``, ``constant`` or ``alias`` (the array of
        another value without its history: ``y.array``, ``Variable(y.array)``).
    shape, dtype :
        Of the array.
    requires_grad : bool
        As define-by-run had it.
    shown : bool
        What the user reads as ``requires_grad``: without backprop a Variable may say True
        though no gradient reaches it.
    source : object
        The leaf number of an argument, the Parameter, ``(link, name)`` of an
        attribute (a `Place` stands for the link where it lies elsewhere),
        ``(node, output)`` of a result, the array of a constant, the value behind
        an alias.
    unchained : bool
        True when user code cut the graph here: no gradient flows further back.
    is_variable : bool
        Whether the user's code held it as a Variable (else as an array).
    is_scalar : bool
        Whether define-by-run has a number in its place, not an array without dimensions.
    number : type or None
        ``float`` where that is a number of Python; else it is NumPy's.
    host : bool
        Whether it lies on the host, and the call runs on a GPU: what computes there gets a copy.
    held : bool
        Whether a function may update the array in place: a copy cannot stand for it.
    writeable : bool or None
        Whether user code may write to what the call returned; None if it did not return it.
    """

    __slots__ = (
        "dtype",
        "held",
        "host",
        "index",
        "is_scalar",
        "is_variable",
        "kind",
        "number",
        "requires_grad",
        "shape",
        "shown",
        "source",
        "unchained",
        "writeable",
    )

    def __init__(self, index, kind, shape, dtype, requires_grad, source, is_variable):
        self.index = index
        self.kind = kind
        self.shape = shape
        self.dtype = dtype
        self.requires_grad = requires_grad
        self.shown = requires_grad
        self.source = source
        self.unchained = False
        self.is_variable = is_variable
        self.is_scalar = False
        self.number: type | None = None
        self.host = False
        self.held = False
        self.writeable: bool | None = None

    def __repr__(self) -> str:
        return f"<Value {self.index} {self.kind} {self.dtype}{list(self.shape)}>"


@dataclasses.dataclass(eq=False, slots=True)
class TracedNode:
    """One function node, or one NumPy call of user code, in the order of execution.

    Attributes
    ----------
    template : chainer.FunctionNode or None
        The node as it was before its first forward; None for a NumPy call.
    function : chainer.FunctionNode or None
        The node after its forward, without graph, arrays of the call and retained data.
    call : tuple or None
        ``(function, args, kwargs)`` of a NumPy call with `Hole` in the place of known arrays.
    inputs, outputs : list of Value
    backprop : bool
        ``chainer.config.enable_backprop`` at that moment.
    rebind : list of Rebinding
        Attributes of the template that hold arrays which were there before its forward.
    label, line : str
        Chainer label and the user's source line.
    effect : bool
        A ``static_code`` call: runs every time, whether its results are used or not.
    draws : bool
        A draw of NumPy's global generator: happens every time, too.
    states : list of (str, bool)
        Arrays that the forward leaves on the node and the call hands out: attribute, and whether
        it is one of the old-style ``Function`` behind the node. The last of the outputs.
    config : dict
        Entries of ``chainer.config`` that code inside the call had changed at that moment.
    silent : dict
        Which outputs carried a gradient (tuple of bool) -> set of the inputs for which the
        backward of the traced call gave None.
    scalars : list of (str, bool, Scalar)
        Floats on the node that later calls read anew: attribute, whether it is one of the
        old-style ``Function`` behind the node, and where the number comes from. Of a node that
        stands for such a float alone, the float.
    train : bool
        ``chainer.config.train`` at that moment.
    own : bool
        The backward is code of a user, or runs some: it may do more than give gradients, so it
        runs whenever define-by-run runs it.
    accumulates : bool
        It may write gradients itself.
    applied : bool
        Whether define-by-run applies this very function at this place.
    forgotten : bool
        It ran inside of ``F.forget``: it runs again for the backward.
    caught : tuple of bool
        Whether user code around it catches an `IndexError` of it; any error of it.
    passes : dict of int to int
        Inputs whose very arrays it hands out, perhaps written: the outputs that they are.
    copies : bool
        What might be a view is a copy, as the arrays of the traced call lie in memory.
    lasting : bool
        A NumPy call that writes into an array which outlives the call: its first input, of which
        its output shows the new contents.
    link : chainer.Link or None
        Whose call was under way, the innermost one.
    """

    template: Any
    function: Any
    call: Any
    inputs: list
    outputs: list
    backprop: bool
    rebind: list
    label: str
    line: str
    effect: bool = False
    draws: bool = False
    states: list = dataclasses.field(default_factory=list)
    config: dict = dataclasses.field(default_factory=dict)
    silent: dict = dataclasses.field(default_factory=dict)
    scalars: list = dataclasses.field(default_factory=list)
    train: bool = True
    own: bool = False
    accumulates: bool = False
    applied: bool = False
    forgotten: bool = False
    caught: tuple[bool, bool] = (False, False)
    passes: dict = dataclasses.field(default_factory=dict)
    copies: bool = False
    lasting: bool = False
    link: Any = None


@dataclasses.dataclass(eq=False)
class Rebinding:
    """An attribute of a node that holds arrays, by itself or in containers.

    Attributes
    ----------
    name : str
    structure : object
        The attribute with ``Hole(i)`` in the place of ``values[i]``.
    values : list of Value
    inner : bool
        True when it is an attribute of the old-style ``Function`` behind the node.
    """

    name: str
    structure: Any
    values: list
    inner: bool


class Hole:
    """Stands for known array number `index` in the arguments of a recorded NumPy call."""

    __slots__ = ("index",)

    def __init__(self, index: int):
        self.index = index


class VariableHole(Hole):
    """A Hole whose array is handed over as a Variable without history."""

    __slots__ = ()


@dataclasses.dataclass(eq=False)
class Report:
    """One ``chainer.report``: ``items`` maps names to a Value or a plain object."""

    items: dict
    observer: Any


@dataclasses.dataclass(eq=False)
class AttributeWrite:
    """``link.name`` holds `value` (a Value or a plain object) after the call.

    Attributes
    ----------
    n_reports : int
        How many reports had been made when it was written, as far as that was seen.
    """

    link: Any
    name: str
    value: Any
    n_reports: int = 0


@dataclasses.dataclass(eq=False)
class Store:
    """What `sink`, a place outside the links, holds after the call; see `sdbr.trace.effects.sinks`.

    Attributes
    ----------
    sink : Sink
    value : object
        Values in lists, tuples and dicts, or a plain object.
    target : Value or None
        The Variable whose attribute it is, where the call itself has made or been given one.
    same : list of (Source, object)
        Objects from outside that have to be the same, and where they lie: that in which the place
        is, and what is left there.
    """

    sink: Any
    value: Any
    target: Value | None = None
    same: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass(eq=False, slots=True)
class Read:
    """``link.name`` was read before the call wrote it, and was `value` or `ABSENT`."""

    link: Any
    name: str
    value: Any


@dataclasses.dataclass(eq=False)
class Trace:
    """A call, recorded.

    Attributes
    ----------
    values : list of Value
    nodes : list of TracedNode
    result : object
        The returned structure with a Value at each Variable or array.
    writes : list of AttributeWrite
    stores : list of Store
    reports : list of Report
    reads : list of Read
    dynamic, others : Reason or None, list of Reason
        Reason and user line when the call cannot be static; those that came after the first.
    quiet : bool
        Whether that needs no warning.
    places : list of (Place, object, bool)
        Where what the call used lay outside of links: a Variable, parameter or link, and whether
        it has to be the very one.
    aliases : list of (tuple, tuple)
        Sources of captured state that held one and the same Variable.
    conditions : list of Condition
        Comparisons of floats that later calls read anew.
    scalars : list of Scalar
        Those that nodes receive; the position is that in the control block.
    numbers : list of Scalar
        Those that a replay leaves behind exactly as Python computes them: what the call assigns to
        attributes, whole numbers that it returns or reports.
    floats : list of float
        The numbers among the arguments, whole ones included.
    float_names, left_at : list of str, dict
        How errors call them; Scalar -> the user's line where it could not be followed.
    moving : dict of int to Scalar
        Numbers outside of links that were others before, by the numbers of their sources.
    fallible : list of Scalar
        What may raise when it is computed of other numbers.
    followed : dict
        Where the trace followed a float: ``(id(link), name)`` of an attribute, or the position of
        an argument among `floats` -> Scalar.
    forgotten : list of Forgotten
        The ``F.forget`` whose functions are among the nodes, and may get a gradient.
    unwatched : list of str
        What the call may read and no replay compares: beyond the limits of what is compared.
    classes : list of (Link, type)
        Links whose attributes the call read, and their classes, which may be assigned.
    lasting : list of Value
        Arrays in attributes of links that NumPy calls write in place.
    fixed : set of int
        Constants that are copies of our own, which nobody can write to.
    windows : set of int
        Values that show an array in an attribute, or a part of it, at each moment.
    grown : dict
        (id(link), name) of each attribute to whose container the call only adds -> its class.
    shared : frozenset of frozenset
        The places of each list or dict that lies in more than one; see `sharing`.
    asks_layout : bool
        Whether the code may learn how arrays that the call was given, or finds, lie in memory.
    borrowed : list of (Place, tuple)
        Where arrays lie that replays fetch from outside of links; how those of the call lay.
    compared : list of (Way, str)
        Where things lie of which the code has asked whether they are an argument.
    roots : list of (str, chainer.Link)
        Where paths of links begin: the link that was called, and those that the code has by name.
    """

    values: list = dataclasses.field(default_factory=list)
    nodes: list = dataclasses.field(default_factory=list)
    result: Any = None
    writes: list = dataclasses.field(default_factory=list)
    stores: list = dataclasses.field(default_factory=list)
    reports: list = dataclasses.field(default_factory=list)
    reads: list = dataclasses.field(default_factory=list)
    dynamic: Reason | None = None
    others: list = dataclasses.field(default_factory=list)
    quiet: bool = False
    places: list = dataclasses.field(default_factory=list)
    aliases: list = dataclasses.field(default_factory=list)
    conditions: list = dataclasses.field(default_factory=list)
    scalars: list = dataclasses.field(default_factory=list)
    numbers: list = dataclasses.field(default_factory=list)
    floats: list = dataclasses.field(default_factory=list)
    float_names: list = dataclasses.field(default_factory=list)
    left_at: dict = dataclasses.field(default_factory=dict)
    moving: dict = dataclasses.field(default_factory=dict)
    fallible: list = dataclasses.field(default_factory=list)
    followed: dict = dataclasses.field(default_factory=dict)
    forgotten: list = dataclasses.field(default_factory=list)
    unwatched: list = dataclasses.field(default_factory=list)
    classes: list = dataclasses.field(default_factory=list)
    lasting: list = dataclasses.field(default_factory=list)
    fixed: set = dataclasses.field(default_factory=set)
    windows: set = dataclasses.field(default_factory=set)
    grown: dict = dataclasses.field(default_factory=dict)
    shared: frozenset = frozenset()
    asks_layout: bool = False
    borrowed: list = dataclasses.field(default_factory=list)
    compared: list = dataclasses.field(default_factory=list)
    roots: list = dataclasses.field(default_factory=list)

    @property
    def effects(self) -> list[AttributeWrite | Report | Store]:
        """Writes and reports in the order in which the call made them, then the stores."""
        found: list = []
        for n, report in enumerate([*self.reports, None]):
            last = n == len(self.reports)
            found += [w for w in self.writes if w.n_reports == n or (last and w.n_reports > n)]
            if report is not None:
                found.append(report)
        return found + self.stores


def first_of(node: TracedNode) -> Value:
    """What a `lasting` node writes into, as it was before the call."""
    value = node.inputs[0]
    while value.kind == RESULT:
        value = value.source[0].inputs[0]
    return value


def keeps_history(node: TracedNode) -> bool:
    """Whether the node has a Variable as attribute through which a second derivative may flow."""
    return any(x.is_variable and x.requires_grad for r in node.rebind for x in r.values)


def values_in(thing) -> list[Value]:
    """The values in a structure of dicts, lists and tuples, in order."""
    found: list[Value] = []
    _find_values([thing], found)
    return found


def _find_values(things: Iterable, found: list[Value]) -> None:
    for thing in things:
        if isinstance(thing, Value):
            found.append(thing)
        elif isinstance(thing, dict):
            _find_values(thing.values(), found)
        elif isinstance(thing, (list, tuple)):
            _find_values(thing, found)


def handed_out(trace: Trace) -> list[Value]:
    """What a call returns, assigns and reports, in order; a value may come more than once."""
    found = values_in(trace.result)
    _find_values([write.value for write in trace.writes], found)
    for store in trace.stores:
        _find_values((store.value, store.target), found)
    _find_values([report.items for report in trace.reports], found)
    return found
