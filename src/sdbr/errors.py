"""Every error and warning that sdbr raises."""


class SdbrError(Exception):
    """Root of all errors raised by sdbr."""


class TraceError(SdbrError):
    """A call has an argument or a result that cannot be traced."""


class NotStaticError(SdbrError):
    """The traced code depends on values in a way that a static schedule cannot repeat."""


class StaleGraphError(SdbrError):
    """A backward pass reached activations that a later call has taken over."""


class ValidationError(SdbrError):
    """A replay differs from define-by-run, or a program is malformed."""


class BackendError(SdbrError):
    """The requested executor is unknown, unavailable or does not fit the arrays."""


class SdbrWarning(UserWarning):
    """Root of all warnings issued by sdbr."""
