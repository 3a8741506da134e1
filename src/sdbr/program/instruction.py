"""Ops of a program under construction."""

from __future__ import annotations


class ControlSlot:
    """A float that changes from call to call: an index into the control block.

    Attributes
    ----------
    index : int
        Position in the control block.
    value : float
        Value while tracing.
    """

    __slots__ = ("index", "name", "value")

    def __init__(self, index: int, value: float, name: str = ""):
        self.index = index
        self.value = value
        self.name = name

    def __float__(self) -> float:
        return float(self.value)


class Instruction:
    """One op of a program under construction.

    Attributes
    ----------
    op : Op
    ins, outs : list of Row
    ints : tuple of int
    floats : tuple of float or ControlSlot
    label, line, link : str
        Chainer label, user source line, path of the link.
    obj : object
        Object slot of a Python op.
    flushes : bool
        Whether results below the smallest normal number may become zero: what is made of
        gradients, where such numbers mean nothing and would stay for good.
    """

    __slots__ = ("floats", "flushes", "ins", "ints", "label", "line", "link", "obj", "op", "outs")

    def __init__(
        self, op, ins, outs, ints=(), floats=(), label="", line="", link="", obj=None, flushes=False
    ):
        self.op = op
        self.ins = ins
        self.outs = outs
        self.ints = ints
        self.floats = floats
        self.label = label
        self.line = line
        self.link = link
        self.obj = obj
        self.flushes = flushes

    def __repr__(self) -> str:
        return f"<{self.op.name} {self.ins} -> {self.outs}>"

    def copy(self) -> Instruction:
        """Another one that a pass may change."""
        return Instruction(
            self.op,
            self.ins,
            self.outs,
            self.ints,
            self.floats,
            self.label,
            self.line,
            self.link,
            self.obj,
        )

    def memory_sharing(self) -> list[tuple[int, int]]:
        """Pairs (output, input) that may lie in the same memory, element for element."""
        return self.op.memory_sharing(len(self.ins), len(self.outs), self.ints, self.floats)
