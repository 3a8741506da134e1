"""What CuPy has been asked for, as it is written down: the function, and NumPy's of that name."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

#: Functions of CuPy that NumPy has under another name.
_OTHER_NAMES = {"scatter_add": np.add.at}


def of_numpy(name: str, module: Any) -> Callable | None:
    """What a module of NumPy has under the name of a function of CuPy's."""
    if name in _OTHER_NAMES:
        return _OTHER_NAMES[name]
    return functools.reduce(lambda x, part: getattr(x, part, None), name.split("."), module)


class Called:
    """A function of CuPy.

    Parameters
    ----------
    function : callable
    name : str
    module : module, optional
        Of NumPy, that has a function of this name.

    Attributes
    ----------
    as_numpy : callable or None
        What computes the same with arrays of NumPy, as ops are known by.
    """

    def __init__(self, function: Callable, name: str, module: Any = np) -> None:
        self.function = function
        self.__name__ = name
        self.label = f"cupy {name}"
        self.as_numpy = of_numpy(name, module)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)
