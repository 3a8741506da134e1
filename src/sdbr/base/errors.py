"""Every error and warning that sdbr raises."""


class SdbrError(Exception):
    """Root of all errors raised by sdbr."""


class TraceError(SdbrError):
    """A call has an argument or a result that cannot be traced."""


class NotStaticError(SdbrError):
    """The traced code depends on values in a way that a static schedule cannot repeat."""


class StaleGraphError(SdbrError):
    """A backward pass reached activations that a later call has taken over."""


class MissingGradientError(SdbrError, AttributeError, TypeError):
    """A backward began at what is no scalar and has no gradient.

    In define-by-run some function fails with the None that it gets, each in its own way.
    """


class ValidationError(SdbrError):
    """A replay differs from define-by-run, or a program is malformed."""


class BackendError(SdbrError):
    """The requested executor is unknown, unavailable or does not fit the arrays."""


class SdbrWarning(UserWarning):
    """Root of all warnings issued by sdbr."""


# What static_code could not do.
_GRADIENTS = (
    (
        "an error of",
        "A replay raises errors out of the whole call: catch them there, or check indices before.",
    ),
    (
        "which values decide about",
        "Look at the values themselves (F.where, numpy.isfinite), or put the code into "
        "sdbr.static_code.",
    ),
    (
        "values raise errors",
        "Look for values that are not finite after the call, or put the code into "
        "sdbr.static_code.",
    ),
    (
        "only while the call is traced",
        "Put it into sdbr.static_code, which runs in every call, or do it outside the call.",
    ),
    (
        "writes gradients",
        "Call it on what the static call returns, or let chainer.grad return the gradients.",
    ),
    ("gradient of a Variable", "Use the gradients that chainer.grad returns."),
    (
        "gradient was taken through",
        "Take the gradient of what the static call returns; enable_double_backprop=True lets it be "
        "differentiated again.",
    ),
    ("history of", "Cut it before or after the static call."),
)
_ADVICE = (
    (
        ("outlives it", "is read and written by", "was deleted"),
        "Return it, or keep it in an attribute of the chain",
    ),
    (("chainer.config",), "Set it outside the call"),
    (
        ("among the arguments was changed",),
        "Let the call change a copy of it",
    ),
    (
        (
            "left NumPy",
            "the memory of an array",
            "by compiled code",
            "into a Python value",
            "shape of a boolean",
            "result of",
        ),
        "Keep it an array: functions of chainer.functions on Variables (F.where, F.maximum, "
        "F.clip, F.sum) do what a branch, float() or a selection does",
    ),
    (
        ("cannot be seen into",),
        "Compute it outside the call and pass it as an argument",
    ),
    (
        ("written in place",),
        "Make a new array instead (numpy.where, F.where, F.concat, F.scatter_add)",
    ),
    (
        ("random",),
        "Draw whole arrays with numpy.random and a size, or use F.dropout or F.gaussian",
    ),
    (
        ("attribute",),
        "Pass numbers that change as arguments, or set them outside the call",
    ),
    (("of F.forget",), "Hand it over as one more argument of F.forget"),
    (("iterator", "time."), "Pass what it gives as an argument"),
    (
        ("gradient of", "backward", "history", "Variable.", "Parameter.", "array of a Variable"),
        "Do that outside the call",
    ),
    (("dtype",), "Cast it to a number type in native byte order before"),
    (
        ("derived from others", "writes into"),
        "Hand over the array itself, contiguous, in inputs=[...] or outputs=[...]",
    ),
)


def remedy(reason: str) -> str:
    """What would make a call static that is dynamic for `reason`, as one sentence."""
    for words, advice in _GRADIENTS:
        if words in reason:
            return advice
    for words, advice in _ADVICE:
        if any(word in reason for word in words):
            return f"{advice}; or put the code into sdbr.static_code."
    return (
        "Use a function of chainer.functions on Variables, or put the code into sdbr.static_code."
    )
