"""Numbers of Python that a call leaves behind, with their classes; what they are to NumPy."""

import numpy as np

#: Whether the value of a number beside an array decides about the dtype: before NumPy 2.
BY_VALUE = int(np.__version__.partition(".")[0]) < 2
#: Before NumPy 2.3 the operators of arrays take the value of an exponent.
EXPONENTS_BY_VALUE = np.lib.NumpyVersion(np.__version__) < "2.3.0"


def numbers_in(thing):
    """`thing` with ``(class, number)`` in the place of each number, lists and dicts as tuples."""
    if isinstance(thing, dict):
        return tuple((name, numbers_in(x)) for name, x in sorted(thing.items()))
    if isinstance(thing, (list, tuple)):
        return tuple(map(numbers_in, thing))
    if isinstance(thing, (int, float)):
        return type(thing).__name__, thing
    return type(thing).__name__
