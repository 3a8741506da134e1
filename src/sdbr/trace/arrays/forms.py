"""Functions of NumPy whose results have shapes or dtypes that may depend on values.

Which these are is a question of the call: where a replay finds others than the trace has, the call
goes another way. The functions that are known to keep them need not be asked.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from sdbr.devices.arrays import ARRAYS
from sdbr.trace.arrays.asking import COUNTED, COUNTING, SHAPED, refuse_inside
from sdbr.trace.arrays.stripping import holds_known, is_traced, strip
from sdbr.trace.arrays.telling import record
from sdbr.trace.code.rebuilding import rebuild
from sdbr.trace.current import current

import numpy as np

#: What these give follows from shapes and dtypes, and from what is given beside arrays.
_KEEPING = """
all amax amin angle any append argmax argmin argpartition argsort around array_split astype
atleast_1d atleast_2d atleast_3d average block broadcast_arrays broadcast_to choose clip
column_stack concat concatenate convolve copy corrcoef correlate count_nonzero cov cross cumprod
cumsum cumulative_prod cumulative_sum diag diagflat diagonal diff digitize dot dsplit dstack
ediff1d einsum expand_dims fix flip fliplr flipud gradient hsplit hstack i0 imag inner interp
isclose iscomplex isin isneginf isposinf isreal kron lexsort linspace logspace matrix_transpose max
mean median meshgrid min moveaxis nan_to_num nanargmax nanargmin nancumprod nancumsum nanmax
nanmean nanmedian nanmin nanpercentile nanprod nanquantile nanstd nansum nanvar outer packbits pad
partition percentile permute_dims polyadd polyder polyint polysub polyval prod ptp quantile ravel
ravel_multi_index real repeat reshape resize roll rollaxis rot90 round searchsorted select sinc
sort sort_complex split squeeze stack std sum swapaxes take take_along_axis tensordot tile trace
transpose trapezoid trapz tril triu unpackbits unravel_index unstack unwrap vander var vdot vsplit
vstack where
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

#: How many of their first arguments are data, whole numbers as well; of the others it is one.
_TAKING = {
    np.where: 3, np.clip: 3, np.take: 2, np.searchsorted: 2, np.choose: 2, np.isin: 2,
    np.isclose: 2, np.full_like: 2,
}  # fmt: skip
_TAKING_METHODS = {"take", "clip", "choose", "searchsorted", "dot", "astype", "view"}
#: Arrays behind their first argument decide about shapes, or about where views lie.
_DECIDED = COUNTED | SHAPED | {np.transpose, np.moveaxis, np.tensordot}
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
        parts, given = _parts_of(result), (*args, *kwargs.values())
        if type(result) in (bool, int):
            form, parts = int(result), ()
        elif all(isinstance(x, (*ARRAYS, np.generic)) for x in parts):
            form = _numbers.setdefault(_form_of(parts, given), next(_count))
        else:
            return result
        if self.form is None:
            self.form, self.result = form, result
        # What it gives back is no result of its own.
        return [np.int64(form), *(np.int64(0) if _is_among(x, given) else x for x in parts)]


def _parts_of(result) -> Sequence[Any]:
    return result if isinstance(result, (tuple, list)) else (result,)


def _is_among(thing, others) -> bool:
    return any(thing is x for x in others)


def _form_of(parts, given) -> tuple:
    """Shapes and dtypes; of views of what was given, where in it they lie as well."""
    return tuple((isinstance(x, np.generic), x.shape, x.dtype, *_place_of(x, given)) for x in parts)


def _place_of(part, given) -> tuple:
    if _is_among(part, given):
        return tuple(i for i, x in enumerate(given) if part is x)
    if not isinstance(part, np.ndarray) or part.flags.owndata:
        return ()
    places = [
        (i, part.ctypes.data - x.ctypes.data, part.strides)
        for i, x in enumerate(given)
        if isinstance(x, np.ndarray) and np.may_share_memory(x, part)
    ]
    return tuple(places[:1])


def is_decided(function: Callable, args: tuple, kwargs: dict) -> bool:
    """Whether numbers that the call has computed may decide about the form of what a function gives
    that keeps it otherwise."""
    if function in COUNTING and len(args) == 1:
        return True
    if function in _DECIDED and holds_known((args[1:], kwargs)):
        return True
    if function in _TAKING:
        return holds_whole(args[_TAKING[function] :])
    return holds_whole((args[1:], kwargs))


def method_is_decided(name: str, args: tuple, kwargs: dict) -> bool:
    """The same of a method of arrays, of which `args` are what it is given."""
    if name in ("transpose", "reshape"):
        return holds_known((args, kwargs))
    return name not in _TAKING_METHODS and holds_whole((args, kwargs))


def holds_whole(thing: Any) -> bool:
    """Whether there is a whole number among things, which the call has computed."""
    if isinstance(thing, (tuple, list)):
        return any(map(holds_whole, thing))
    if isinstance(thing, dict):
        return any(map(holds_whole, thing.values()))
    return is_traced(thing) and thing.ndim == 0 and thing.dtype.kind in "iub" and holds_known(thing)


def record_with_form(function: Callable, args: tuple, kwargs: dict) -> Any:
    """Record a call, and which shapes and dtypes it gives, which the code may ask at any time."""
    if not holds_known((args, kwargs)):
        return record(function, args, kwargs)
    formed = Formed(function)
    found = record(formed, args, kwargs)
    result, formed.result = formed.result, None
    if formed.form is None:
        return found
    number, *parts = found
    given = {id(strip(x)): x for x in (*args, *kwargs.values())}
    parts = [given.get(id(x), y) for x, y in zip(_parts_of(result), parts, strict=False)]
    if is_traced(number):
        refuse_inside(f"the shape of the result of numpy.{function.__name__}")
        text = f"the shape of the result of numpy.{function.__name__} depends on values"
        current().questions.ask(number, int, formed.form, text)
    if not parts:
        return result
    return rebuild(result, parts) if isinstance(result, (tuple, list)) else parts[0]
