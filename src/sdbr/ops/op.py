"""What an op is, and what collects those of a family."""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Callable, Iterable, Sequence
from types import ModuleType

import numpy as np

#: An operand as it is written down: name, class of dtypes, axes, how many.
WORD = re.compile(r"(\w+):([A-Z])(?:\[([^\]]*)\])?([*?]?)")

#: An integer attribute as it is written down: ``name``, ``name<2`` (0 or 1), ``name>=1``, ``name*``.
INTEGER = re.compile(r"(\w+\*?)(?:<(\d+)|>=(\d+))?")

#: dtype and shape of an operand.
Layout = tuple[np.dtype, tuple[int, ...]]


@dataclasses.dataclass(frozen=True)
class Op:
    """An op, as the op table has it.

    Attributes
    ----------
    name : str
        Name, as printed by the disassembler.
    opcode : int
        Its place in the table.
    inputs, outputs : tuple of str
        Operand names with dtype class, ``'x:T'``; a trailing ``*`` marks the
        one variadic input (zero or more).
    ints, floats : tuple of str
        Names of the integer and float attributes, in order. A trailing ``*`` marks a last one
        that takes any number.
    doc : str
        The formula; NumPy notation.
    formula : callable or None
        The same in NumPy. It takes the inputs, then the attributes by name, and returns the
        outputs: one array or a tuple. None where that is nothing that NumPy could compute.
    direct : bool
        The formula takes ``(ins, outs, attributes)`` and writes the outputs itself: it looks at
        their old contents or shape, or writes an input.
    family : str
        The module that it stands in; kernels, layouts and parity cases go by the same word.
    axes : tuple
        Per operand its axes, see `sdbr.ops.table`; None where they may be any.
    most_inputs : int
        The number of inputs at most, where the variadic one comes once or not at all; else 0.
    most_outputs : int
        The number of outputs at most, where the last one is memory that kernels of some backends
        work in: those ask for it (`sdbr.program.machine`); else 0.
    rule : callable or None
        ``(ins, outs, ints, floats) -> str``: what is wrong beyond axes and dtypes, with operands as
        `Layout`; empty where nothing is.
    inplace : tuple of int
        Inputs whose memory the first output may reuse.
    sharing : callable or None
        ``(inputs, outputs, ints, floats) -> pairs`` (output, input) that may lie in the same
        memory, by numbers of operands and attributes, where `inplace` cannot say.
    bounds : tuple of (int, int or None)
        Of each integer attribute that has bounds its place, the least value and, unless there is
        none, the end of the values.
    writes : bool
        It writes its inputs themselves: none of them may share memory with another operand.
    effect : bool
        The op must run even if nobody reads its outputs, in its place, and may write inputs.
    draws : bool
        Its effect are draws of a generator: it writes no inputs.
    asks : bool
        Its effect is that it may end the run: it writes no inputs.
    python : bool
        It runs code that may read and write whatever the caller has bound.
    updates : bool
        It writes parameters, or gradients on the way to them.
    step : bool
        It can be a step of ``fused``: elementwise, or data movement, of any strides.
    moves : bool
        It makes no number that is not there before.
    again : str
        Whether a backward may run the op again instead of reading what it has made: ``'free'``,
        where that costs nothing inside of ``fused``; ``'cheap'``, where it saves memory that is
        short; empty: never.
    by_row : tuple of int
        Inputs of which each row makes one row of the output: what is stacked there gives stacked
        outputs.
    cut : str
        The axis along which parts of the op can be computed apart, with the same result:
        ``'elements'``, ``'rows'`` of a product, ``'matrices'``, ``'outer'``, the first axis of all
        operands, ``'samples'``, of all but parameters, or ``'channels'``; empty: none.
    product : bool
        Its time is that of multiplications, of which each element of the output is a sum.
    divides : bool
        It takes several threads by itself, however large it is.
    activation, activation_grad : int
        The number by which other ops (``linear``) carry this function, or (``gemm_mask``) its
        gradient; 0: none.
    exact : bool
        One IEEE operation, a choice or a sign: the result is the same on every backend, bit by bit.
    keeps_denormals : bool
        It divides by what it computes: a result that became zero would make an infinity. What it
        makes of gradients is never flushed.
    zero_sign_open : bool
        The sign of a zero may be either: where NumPy chooses one of two.
    flops : callable or None
        ``(ins, outs, ints) -> int``: floating-point operations, with operands as `Layout`. None:
        one for each element of the largest operand, and none in an op that only `moves`.
    spelled : callable or None
        ``(inputs, outputs, ints, floats) -> list of str``: attributes as text, where operands are
        given by their places in the buffer table.
    """

    name: str
    opcode: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    ints: tuple[str, ...] = ()
    floats: tuple[str, ...] = ()
    doc: str = ""
    formula: Callable | None = None
    direct: bool = False
    family: str = ""
    axes: tuple[tuple[str, ...] | None, ...] = ()
    most_inputs: int = 0
    most_outputs: int = 0
    rule: Callable | None = None
    inplace: tuple[int, ...] = ()
    sharing: Callable | None = None
    bounds: tuple[tuple[int, int, int | None], ...] = ()
    writes: bool = False
    effect: bool = False
    draws: bool = False
    asks: bool = False
    python: bool = False
    updates: bool = False
    step: bool = False
    moves: bool = False
    again: str = ""
    by_row: tuple[int, ...] = ()
    cut: str = ""
    product: bool = False
    divides: bool = False
    activation: int = 0
    activation_grad: int = 0
    exact: bool = False
    keeps_denormals: bool = False
    zero_sign_open: bool = False
    flops: Callable | None = None
    spelled: Callable | None = None

    @property
    def signature(self) -> tuple[str, str]:
        """Inputs and outputs with their axes, as they are written down."""
        words = []
        for word, axes in zip((*self.inputs, *self.outputs), self.axes, strict=True):
            plain = word.rstrip("*")
            shape = "" if axes is None else _written(axes)
            optional = (
                self.most_inputs,
                self.most_outputs and len(self.inputs) + self.most_outputs,
            )
            last = "?" if len(words) + 1 in optional else "*"
            words.append(plain + shape + (last if word != plain else ""))
        n = len(self.inputs)
        return ", ".join(words[:n]), ", ".join(words[n:])

    @functools.cached_property
    def writes_inputs(self) -> bool:
        """Whether its effect may be that it writes what it is given."""
        return self.effect and not (self.draws or self.asks)

    @functools.cached_property
    def reads_indices(self) -> bool:
        """Whether it takes indices that come from data, which may be an error."""
        return any(word.rstrip("*").endswith(":I") for word in self.inputs)

    @functools.cached_property
    def words(self) -> tuple[tuple, tuple]:
        """Of inputs and of outputs: name, class of dtypes, these (None: any) and axes of each word."""
        found = []
        for word, axes in zip((*self.inputs, *self.outputs), self.axes, strict=True):
            name, kind = word.rstrip("*").split(":")
            found.append((name, kind, _CLASSES.get(kind), axes))
        return tuple(found[: len(self.inputs)]), tuple(found[len(self.inputs) :])

    @functools.cached_property
    def numbers(self) -> dict[str, int]:
        """Axes that are numbers, with their lengths."""
        names = {name for axes in self.axes if axes for name in axes}
        return {name: int(name) for name in names if name.isdigit()}

    def attributes(self, ints, floats) -> dict:
        """Attributes by name; one with a star is a tuple, and loses its star."""
        found: dict = {}
        for names, values in ((self.ints, ints), (self.floats, floats)):
            for i, name in enumerate(names):
                if name.endswith("*"):
                    found[name[:-1]] = tuple(values[i:])
                else:
                    found[name] = values[i]
        return found

    def takes(self, n_ints: int, n_floats: int) -> bool:
        """Whether it has that many integer and float attributes."""
        (fewest_ints, any_ints), (fewest_floats, any_floats) = self._numbers
        return (n_ints >= fewest_ints if any_ints else n_ints == fewest_ints) and (
            n_floats >= fewest_floats if any_floats else n_floats == fewest_floats
        )

    @functools.cached_property
    def _numbers(self) -> tuple[tuple[int, bool], ...]:
        """How many integer and float attributes it has at least, and whether it may have more."""
        starred = [bool(names) and names[-1].endswith("*") for names in (self.ints, self.floats)]
        return tuple(
            (len(names) - star, star)
            for names, star in zip((self.ints, self.floats), starred, strict=True)
        )

    def memory_sharing(self, n_in: int, n_out: int, ints, floats) -> list[tuple[int, int]]:
        """Pairs (output, input) that may lie in the same memory, element for element."""
        if self.sharing is not None:
            return self.sharing(n_in, n_out, ints, floats)
        return [(0, k) for k in self.inplace] if n_out else []

    @functools.cached_property
    def updated(self) -> tuple[tuple[int, int], ...]:
        """Pairs (output, input) where the output is what an update makes of the input: ``p_out``, ``p``."""
        places = {f"{word[0]}_out": k for k, word in enumerate(self.words[0])}
        made = [places.get(word[0]) for word in self.words[1]]
        return tuple((o, k) for o, k in enumerate(made) if k is not None)

    def work(
        self, ins: Sequence[Layout], outs: Sequence[Layout], ints: Sequence[int]
    ) -> tuple[int | None, int]:
        """Floating-point operations (None: nobody knows, of a Python op), and bytes.

        Each operand counts once, with all of its elements; memory to work in does not count.
        """
        if self.most_outputs and len(outs) == self.most_outputs:
            outs = outs[:-1]
        operands = [*ins, *outs]
        nbytes = sum(dtype.itemsize * math.prod(shape) for dtype, shape in operands)
        if self.python:
            return None, nbytes
        if self.flops is not None:
            return self.flops(ins, outs, ints), nbytes
        if self.moves:
            return 0, nbytes
        return max((math.prod(shape) for _, shape in operands), default=0), nbytes

    @np.errstate(all="ignore")  # kernels do not warn either; Python ops keep the caller's settings
    def compute(self, ins: list, outs: list, attributes: dict) -> None:
        """Write the outputs, by the formula.

        Parameters
        ----------
        ins, outs : list of numpy.ndarray
        attributes : dict
            By name: Python numbers, so that an array keeps its dtype when it meets one.

        Raises
        ------
        IndexError
            For an index that comes from data and is out of range; nothing was written.
        """
        if self.direct:
            self.formula(ins, outs, attributes)
            return
        if outs[0].ndim == 0 and ins and all(x.ndim == 0 for x in ins):
            # NumPy 1 would compute these with Python's floats in float64.
            ins, outs = ([x.reshape(1) for x in operands] for operands in (ins, outs))
        results = self.formula(*ins, **attributes)
        results = results if type(results) is tuple else (results,)
        for out, result in zip(outs, results, strict=True):
            out[...] = result

    def problem(
        self, ins: Sequence[Layout], outs: Sequence[Layout], ints: Sequence[int], floats: Sequence
    ) -> str:
        """What is wrong with operands and attributes; empty when nothing is."""
        found = _operands_problem(self, ins, outs) or _bounds_problem(self, ints)
        if not found and self.most_inputs and len(ins) > self.most_inputs:
            found = f"{len(ins)} inputs, at most {self.most_inputs}"
        if not found and self.most_outputs and len(outs) > self.most_outputs:
            found = f"{len(outs)} outputs, at most {self.most_outputs}"
        if not found and self.rule is not None:
            found = self.rule(ins, outs, ints, floats)
        return f"{found}; got {described(ins)} -> {described(outs)}" if found else ""


def described(operands: Sequence[Layout]) -> str:
    """``float32[2, 3], int32[2]`` for messages."""
    return ", ".join(f"{dtype.name}{list(shape)}" for dtype, shape in operands)


#: Dtypes by the class that stands for them; any other class is for all of them.
_CLASSES = {
    "T": (np.dtype(np.float32), np.dtype(np.float64)),
    "I": tuple(np.dtype(c) for c in np.typecodes["AllInteger"]),
    "B": (np.dtype(bool),),
    "D": (np.dtype(np.float64),),
}


def _operands_problem(op: Op, ins: Sequence[Layout], outs: Sequence[Layout]) -> str:
    """What is wrong with dtypes and shapes."""
    same: dict[str, np.dtype] = {}
    known: dict[str, object] = {**op.numbers}
    for words, operands in zip(op.words, (ins, outs), strict=True):
        last = len(words) - 1
        for k, (dtype, shape) in enumerate(operands):
            name, kind, classes, axes = words[min(k, last)]
            first = same.setdefault(kind, dtype) if kind in "TS" else dtype
            if (classes and dtype not in classes) or (first is not dtype and first != dtype):
                return f"{name} of {dtype.name}, in {', '.join((*op.inputs, *op.outputs))}"
            if axes is not None and not _fits(axes, shape, known):
                where = ", ".join(f"{k} = {v}" for k, v in known.items() if k != str(v))
                given = f"{name}{_written(axes)} has shape {list(shape)}"
                return f"{given} where {where}" if where else given
    return ""


def _fits(axes: tuple[str, ...], shape: tuple[int, ...], known: dict[str, object]) -> bool:
    """Whether a shape has these axes, of which some lengths are known; notes the others."""
    if not axes:
        return math.prod(shape) == 1
    if axes[-1] == "...":
        return known.setdefault(axes[0], shape) == shape
    return len(axes) == len(shape) and (*map(known.setdefault, axes, shape),) == shape


def _bounds_problem(op: Op, ints: Sequence[int]) -> str:
    """What is wrong with integer attributes by themselves."""
    for k, least, end in op.bounds:
        if ints[k] < least or (end is not None and ints[k] >= end):
            expected = f"at least {least}" if end is None else f"{least} to {end - 1}"
            return f"{op.ints[k]} is {ints[k]}, expected {expected}"
    return ""


def numbered(families: Iterable[ModuleType], start: int = 0) -> tuple[Op, ...]:
    """The ops of some families, one after another; each gets its opcode and its family."""
    ops = [(family.__name__.split(".")[-1], op) for family in families for op in family.OPS]
    return tuple(
        dataclasses.replace(op, opcode=i, family=family)
        for i, (family, op) in enumerate(ops, start)
    )


class Ops:
    """Collects the ops of one family: a call adds one; names and attributes as in `Op`.

    `inputs`, `outputs`, `ints` and `floats` are words in one string, operands with their axes.
    The formula is given, or is the function that a call decorates.
    """

    def __init__(self) -> None:
        self.ops: list[Op] = []

    def __call__(
        self,
        name: str,
        inputs: str,
        outputs: str,
        doc: str,
        formula: Callable | None = None,
        ints: str = "",
        floats: str = "",
        **facts,
    ) -> Callable[[Callable], Callable]:
        operands = [[WORD.fullmatch(w) for w in text.split()] for text in (inputs, outputs)]
        integers = [INTEGER.fullmatch(w) for w in ints.split()]
        words = [tuple(f"{m[1]}:{m[2]}{'*' if m[4] else ''}" for m in found) for found in operands]
        axes = tuple(None if m[3] is None else _axes(m[3]) for found in operands for m in found)
        at = len(self.ops)
        op = Op(
            name, -1, *words, tuple(m[1] for m in integers), tuple(floats.split()), doc, formula
        )
        facts["bounds"] = tuple(
            (k, int(m[3] or 0), int(m[2]) if m[2] else None)
            for k, m in enumerate(integers)
            if m[2] or m[3]
        )
        if inputs.endswith("?"):
            facts["most_inputs"] = len(words[0])
        if outputs.endswith("?"):
            facts["most_outputs"] = len(words[1])
        self.ops.append(dataclasses.replace(op, axes=axes, **facts))

        def computed_by(function: Callable) -> Callable:
            self.ops[at] = dataclasses.replace(self.ops[at], formula=function)
            return function

        return computed_by

    def elementwise(
        self,
        name: str,
        inputs: str,
        output: str,
        doc: str,
        formula: Callable | None = None,
        floats: str = "",
        **facts,
    ) -> Callable[[Callable], Callable]:
        """An op of operands that are walked together; the output may take the place of any input.

        `inputs` are names in one string, `output` is one name.
        """
        words = [f"{word}:T[s...]" for word in (*inputs.split(), output)]
        facts = {"step": True, "again": "cheap", "cut": "elements", **facts}
        facts["inplace"] = tuple(range(len(words) - 1))
        return self(name, " ".join(words[:-1]), words[-1], doc, formula, floats=floats, **facts)


def _written(axes: tuple[str, ...]) -> str:
    """Axes as they are written down."""
    return f"[{axes[0]}...]" if axes[-1:] == ("...",) else f"[{', '.join(axes)}]"


def _axes(text: str) -> tuple[str, ...]:
    """``'n,c'`` -> ``('n', 'c')``, ``'s...'`` -> ``('s', '...')``."""
    if text.endswith("..."):
        return text[:-3], "..."
    return tuple(text.split(",")) if text else ()
