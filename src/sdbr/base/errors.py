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


class SnapshotError(SdbrError):
    """A file is no snapshot of what it is to be loaded into; nothing was changed.

    Attributes
    ----------
    key : str or None
        The name in the file.
    expected, found : str or None
    """

    def __init__(self, text: str, key=None, expected=None, found=None):
        super().__init__(text)
        self.key, self.expected, self.found = key, expected, found


class WorkerError(SdbrError):
    """A process that fetches examples has ended, and not by itself."""


class BackendError(SdbrError):
    """The requested executor is unknown, unavailable or does not fit the arrays.

    Attributes
    ----------
    ops : sequence of int or None
        Those of the program that ran, where it is one of a GPU's.
    """

    ops = None


class SettingError(BackendError, ValueError):
    """An entry of ``chainer.config``, or a variable of the environment, is no allowed value."""


class DriverError(BackendError):
    """The CUDA driver refused something.

    Attributes
    ----------
    status : int
        What its function gave.
    """

    def __init__(self, text: str, status: int):
        super().__init__(text)
        self.status = status


class OutOfMemoryError(BackendError, MemoryError):
    """There is no memory for what a call needs; it can be made again when there is."""


class Retrace(Exception):
    """A replay found that its schedule no longer fits; internal."""


class SideExit(Exception):
    """User code in a replay has changed what its call reads, or the replay has raised; internal.

    Attributes
    ----------
    what : str
        What it has changed, or the error as text.
    notes : list of Ran
        The user code that has run.
    undo : callable
        Puts back what the last of it has changed; gives an `Undone`.
    error : Exception or None
        That was raised.
    where : str
        Where it comes from.
    caught : bool
        Whether the call has handlers for errors of the op.
    label : str
        What the last of the user code is called.
    """

    def __init__(
        self,
        what: str,
        notes: list,
        undo,
        error: Exception | None = None,
        where: str = "",
        caught: bool = False,
    ):
        super().__init__(what)
        self.what, self.error, self.where, self.caught = what, error, where, caught
        self.notes = notes
        self.undo = undo
        self.label: str = notes[-1].what[0] if notes else ""


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
