"""Functions of NumPy whose results have shapes or dtypes that may depend on values.

Which these are is a question of the call: where a replay finds others than the trace has, the call
goes another way. The functions that are known to keep them need not be asked.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from sdbr.devices.arrays import ARRAYS
from sdbr.trace.arrays.stripping import holds_known, is_traced
from sdbr.trace.arrays.telling import record
from sdbr.trace.code.rebuilding import rebuild
from sdbr.trace.current import current

import numpy as np

#: What these give follows from shapes and dtypes, and from what is given beside arrays.
_KEEPING = """
all amax amin angle any append argmax argmin argpartition argsort around array_split astype
atleast_1d atleast_2d atleast_3d average block broadcast_arrays broadcast_to choose clip
column_stack concat concatenate convolve copy copyto corrcoef correlate count_nonzero cov cross
cumprod cumsum cumulative_prod cumulative_sum diag diagflat diagonal diff digitize dot dsplit dstack
ediff1d einsum expand_dims fill_diagonal fix flip fliplr flipud gradient hsplit hstack i0 imag inner
interp isclose iscomplex isin isneginf isposinf isreal kron lexsort linspace logspace
matrix_transpose max mean median meshgrid min moveaxis nan_to_num nanargmax nanargmin nancumprod
nancumsum nanmax nanmean nanmedian nanmin nanpercentile nanprod nanquantile nanstd nansum nanvar
outer packbits pad partition percentile permute_dims place polyadd polyder polyint polysub polyval
prod ptp put put_along_axis putmask quantile ravel ravel_multi_index real repeat reshape resize roll
rollaxis rot90 round searchsorted select sinc sort sort_complex split squeeze stack std sum swapaxes
take take_along_axis tensordot tile trace transpose trapezoid trapz tril triu unpackbits
unravel_index unstack unwrap vander var vdot vsplit vstack where
""".split()  # noqa: SIM905
_OF_LINALG = """
cholesky cond cross det diagonal eigh eigvalsh inv matmul matrix_norm matrix_power matrix_rank
matrix_transpose multi_dot norm outer pinv qr slogdet solve svd svdvals tensordot tensorinv
tensorsolve trace vecdot vector_norm
""".split()  # noqa: SIM905
KEEPS_FORM = frozenset(
    getattr(module, name)
    for module, names in ((np, _KEEPING), (np.linalg, _OF_LINALG), (np.fft, np.fft.__all__))
    for name in names
    if hasattr(module, name)
)

_count = itertools.count()
_numbers: dict[tuple, int] = {}


class Formed:
    """A function that gives, before its results, a number for their shapes and dtypes.

    Attributes
    ----------
    form : int or None
        That number while the call was traced; None before, and where it gave something else than
        arrays and numbers.
    result : object
        What the function has given by then.
    """

    gives_form = True

    def __init__(self, function: Callable) -> None:
        self.function = function
        self.__name__ = function.__name__
        self.form: int | None = None
        self.result: Any = None

    def __call__(self, *args, **kwargs):
        result = self.function(*args, **kwargs)
        parts = result if isinstance(result, (tuple, list)) else (result,)
        if type(result) in (bool, int):
            form, parts = int(result), ()
        elif all(isinstance(x, (*ARRAYS, np.generic)) for x in parts):
            form = _numbers.setdefault(_form_of(parts), next(_count))
        else:
            return result
        if self.form is None:
            self.form, self.result = form, result
        return [np.int64(form), *parts]


def _form_of(parts) -> tuple:
    return tuple((isinstance(x, np.generic), x.shape, x.dtype) for x in parts)


def record_with_form(function: Callable, args: tuple, kwargs: dict) -> Any:
    """Record a call, and which shapes and dtypes it gives, which the code may ask at any time."""
    callables = any(callable(x) for x in (*args, *kwargs.values()) if not isinstance(x, type))
    if callables or not holds_known((args, kwargs)):  # code of the user's may count its calls
        return record(function, args, kwargs)
    formed = Formed(function)
    found = record(formed, args, kwargs)
    result, formed.result = formed.result, None
    if formed.form is None:
        return found
    number, *parts = found
    if is_traced(number):
        text = f"the shape of the result of numpy.{function.__name__} depends on values"
        current().ask(number, int, formed.form, text)
    if not parts:
        return result
    return rebuild(result, parts) if isinstance(result, (tuple, list)) else parts[0]
