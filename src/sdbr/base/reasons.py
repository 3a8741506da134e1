"""Why a call is not static, and what would make it so: chosen where it is found out."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

_OR_CODE = "; or put the code into sdbr.static_code."


class Remedy(Enum):
    """What would make a call static, as one sentence."""

    # What static_code could not do.
    CATCH_OUTSIDE = "Catch errors outside of the call, or check indices before."
    LOOK_AT_VALUES = (
        "Look at the values themselves (F.where, numpy.isfinite), or put the code into "
        "sdbr.static_code."
    )
    LOOK_AFTERWARDS = (
        "Look for values that are not finite after the call, or put the code into sdbr.static_code."
    )
    RUN_EVERY_TIME = (
        "Put it into sdbr.static_code, which runs in every call, or do it outside the call."
    )
    BACKWARD_OUTSIDE = (
        "Call it on what the static call returns, or let chainer.grad return the gradients."
    )
    GRADIENTS_OF_GRAD = "Use the gradients that chainer.grad returns."
    GRADIENT_OF_RESULT = (
        "Take the gradient of what the static call returns; enable_double_backprop=True lets it be "
        "differentiated again."
    )
    CUT_OUTSIDE = "Cut it before or after the static call."
    RETURN_OTHER = "Return or keep what it holds, in lists, tuples or dicts."
    READ_BEFORE = "Read it before that code runs, or let that code return it as an array."
    GIVE_ARRAY = "Give it an array, or return None in its place."
    # What it could.
    RETURN_IT = "Return it, or keep it in an attribute of the chain" + _OR_CODE
    SET_OUTSIDE = "Set it outside the call" + _OR_CODE
    CHANGE_A_COPY = "Let the call change a copy of it" + _OR_CODE
    KEEP_A_COPY = "Return or keep a copy of it (list(x), dict(x))" + _OR_CODE
    STAY_ARRAYS = (
        "Keep it an array: functions of chainer.functions on Variables (F.where, F.maximum, "
        "F.clip, F.sum) do what a branch, float() or a selection does" + _OR_CODE
    )
    COMPUTE_OUTSIDE = "Compute it outside the call and pass it as an argument" + _OR_CODE
    NEW_ARRAY = (
        "Make a new array instead (numpy.where, F.where, F.concat, F.scatter_add)" + _OR_CODE
    )
    ASSIGN_IT = "Assign a new array instead (self.x = 0.9 * self.x + 0.1 * y)" + _OR_CODE
    DRAW_ARRAYS = (
        "Draw whole arrays with numpy.random and a size, or use F.dropout or F.gaussian" + _OR_CODE
    )
    PASS_NUMBERS = "Pass numbers that change as arguments, or set them outside the call" + _OR_CODE
    GIVE_TO_FORGET = "Hand it over as one more argument of F.forget" + _OR_CODE
    PASS_WHAT_IT_GIVES = "Pass what it gives as an argument" + _OR_CODE
    CALL_METHOD = "Call the method of the array or number itself (x.fill(0), x.item())" + _OR_CODE
    OTHER_THREADS = (
        "Make the first calls while no other thread changes what their code may name: globals of "
        "its modules and attributes of its classes. Replays do not mind."
    )
    DO_OUTSIDE = "Do that outside the call" + _OR_CODE
    MOVE_THERE = "Move it there before, once: chainer.get_device('@cupy:0').send(x)" + _OR_CODE
    CAST_BEFORE = "Cast it to a number type in native byte order before" + _OR_CODE
    HAND_OVER_WHOLE = (
        "Hand over the array itself, contiguous, in inputs=[...] or outputs=[...]" + _OR_CODE
    )
    USE_FUNCTIONS = (
        "Use a function of chainer.functions on Variables, or put the code into sdbr.static_code."
    )


#: What is to be mended whatever else is: for reasons that do not lie in what is known of arrays.
#: Nothing is followed any more once a call is dynamic, so that others may only seem to be some.
OF_THEMSELVES = frozenset({
    Remedy.RUN_EVERY_TIME, Remedy.PASS_WHAT_IT_GIVES, Remedy.DRAW_ARRAYS, Remedy.BACKWARD_OUTSIDE,
    Remedy.CUT_OUTSIDE,
})  # fmt: skip


class Reason(NamedTuple):
    """Why a call runs define-by-run.

    Attributes
    ----------
    text : str
    remedy : Remedy
    line : str
        Where it was found out; empty where no line did it.
    """

    text: str
    remedy: Remedy
    line: str = ""
