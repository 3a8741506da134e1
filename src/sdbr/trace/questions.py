"""Questions: values that leave NumPy inside a call and decide which way the code takes.

``if``, ``while``, ``assert`` and ``int()`` look at a number that the call has computed. The trace
notes the answer and goes on: it is that of one way through the code. A replay computes the question
anew, and where the answer is another one, nothing of what it did is visible: the call is served by
a trace that went the other way.
"""

from __future__ import annotations

import dataclasses

from sdbr.base.reasons import Remedy
from sdbr.trace._node_copies import runs_users_code
from sdbr.trace.code.frames import user_line
from sdbr.trace.values import Trace, TracedNode

#: Questions of one call at most.
MOST = 1024


@dataclasses.dataclass(eq=False)
class Question(TracedNode):
    """What traced code asked of its one input, a value of one element.

    Attributes
    ----------
    kind : type
        ``bool`` (is it true?) or ``int`` (which number is it?).
    answer : int
    """

    kind: type = bool
    answer: int = 0


def answers(trace: Trace) -> tuple[int, ...]:
    """The answers to all questions of a trace, in their order: the way that it took."""
    return tuple(node.answer for node in questions(trace))


def questions(trace: Trace) -> list[Question]:
    """The questions of a trace, in order."""
    return [node for node in trace.nodes if type(node) is Question]


class Questions:
    """The part of the recorder that notes questions."""

    def __init__(self, recorder):
        self.recorder = recorder
        self.trace = recorder.trace
        self.values = recorder.values

    def ask(self, array, kind: type, answer: int, text: str) -> None:
        """Traced code turns `array` into a number of Python, which is `answer`.

        Parameters
        ----------
        array : TracedArray or TracedScalar
        kind : type
            ``bool`` or ``int``.
        answer : int
        text : str
            What to say where the call cannot be static for it.
        """
        if self.trace.dynamic is not None:
            return
        if self.recorder.borrowed.are_compared and self.recorder.meeting.leave_numbers(
            (array,), arrays_alone=True
        ):
            return
        if self.recorder.nodes.forgotten is not None:
            self.recorder.nodes.forgotten.fail("a value decides inside which way the code takes")
            return
        reason = self.why_closed()
        if reason is not None:
            self.recorder.mark_dynamic(f"{text} {reason}", Remedy.STAY_ARRAYS)
            return
        self.recorder.views.check_exports()
        value = self.values.of_traced(array)
        label = f"question {kind.__name__}"
        call = (_asked, (), {})
        self.trace.nodes.append(
            Question(
                None, None, call, [value], [], False, [], label, user_line(), kind=kind,
                answer=int(answer), link=self.recorder.link,
            )
        )  # fmt: skip

    def why_closed(self) -> str | None:
        """Why a replay could not take back what it has done until here, or None."""
        if sum(type(node) is Question for node in self.trace.nodes) >= MOST:
            return f"after {MOST} others"
        for node in self.trace.nodes:
            if happens_once(node):
                return f"after {node.label}, which happens only once"
        return None


def happens_once(node: TracedNode) -> bool:
    """Whether a node may do what cannot be taken back: code that is not Chainer's."""
    if node.effect or node.function is None:
        return node.effect
    return runs_users_code(node.function)


def _asked(*_):
    """In the place of a NumPy call."""
    return ()
