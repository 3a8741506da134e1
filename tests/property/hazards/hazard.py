"""One thing that a random program does."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Hazard:
    """Fragments of source, each put in its place.

    ``{k}`` is a number of its own, ``{h}`` a Variable of the call, ``{raw}`` the array that came
    in, ``{v}`` the Variable that the body makes. All have shape ``(n, 4)``.

    Attributes
    ----------
    name : str
    body : str
        Lines of the forward; without them ``{v}`` is not made.
    head : str
        Lines of the module.
    closure : str
        Lines of the function around the class.
    init : str
        Lines of ``__init__``.
    before, between, after : str
        Lines of the loop: before the call, between forward and backward, at the end. They may use
        ``i``, ``net`` (the link), ``x`` (what is passed), ``data`` (its array), ``ys`` (results),
        and ``optimizer``.
    see : str
        What the program looks at in each iteration: an expression.
    dynamic : bool
        Whether it most often makes the call dynamic: then it is drawn less often, since what is
        dynamic is compared with itself.
    """

    name: str
    body: str = ""
    head: str = ""
    closure: str = ""
    init: str = ""
    before: str = ""
    between: str = ""
    after: str = ""
    see: str = ""
    dynamic: bool = False
