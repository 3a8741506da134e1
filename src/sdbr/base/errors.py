"""Every error and warning that sdbr raises."""


class SdbrError(Exception):
    """Root of all errors raised by sdbr."""


class TraceError(SdbrError):
    """A call has an argument or a result that cannot be traced."""


class NotStaticError(SdbrError):
    """The traced code depends on values in a way that a static schedule cannot repeat."""


class StaleGraphError(SdbrError):
    """A backward reached activations that a whole step has used up, or that were given back."""


class MissingGradientError(SdbrError, AttributeError, TypeError):
    """A backward began at what is no scalar and has no gradient.

    In define-by-run some function fails with the None that it gets, each in its own way.
    """


class ValidationError(SdbrError):
    """A replay differs from define-by-run, or a program is malformed."""


class BackendError(SdbrError):
    """The requested executor is unknown, unavailable or does not fit the arrays."""


class OtherAnswer(Exception):
    """A replay found that its call goes another way than the trace; internal.

    Attributes
    ----------
    number : int
        Of the question.
    answer : int
        Of this call.
    """

    def __init__(self, number: int, answer: int):
        super().__init__(number, answer)
        self.number = number
        self.answer = answer


class SdbrWarning(UserWarning):
    """Root of all warnings issued by sdbr."""
