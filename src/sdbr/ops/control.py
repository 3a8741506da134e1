"""Ops of the executor itself."""

from __future__ import annotations

from sdbr.base.errors import OtherAnswer
from sdbr.ops.op import Ops

define = Ops()


define(
    "python",
    "x:A*",
    "y:A*",
    "run object slot `slot`; operands are what it reads and writes",
    ints="slot n_inputs",
    effect=True,
    python=True,
)

define("nop", "", "", "nothing", lambda ins, outs, attributes: None, direct=True, effect=True)

define(
    "fork",
    "",
    "",
    "the next n1 + n2 + n3 + n4 ops are four branches (0: none) that may run at the same time",
    lambda ins, outs, attributes: None,
    ints="n1 n2 n3 n4",
    direct=True,
    effect=True,
)


@define(
    "question",
    "x:A[]",
    "",
    "end the run unless x is `answer`; `number` counts the questions of a trace",
    ints="answer number",
    direct=True,
    effect=True,
    asks=True,
)
def question(ins, outs, attributes):
    got = int(ins[0].reshape(())[()])
    if got != attributes["answer"]:
        raise OtherAnswer(attributes["number"], got)


OPS = define.ops
