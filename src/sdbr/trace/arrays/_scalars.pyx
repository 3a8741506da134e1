"""Numbers of Python that change from call to call: attributes of links, and float arguments.

Where a function node receives such a float, as it is or after arithmetic, the node gets a slot of
the control block that every call fills anew; a comparison of it is a condition on later values.
Compiled, as most of what a replay with such numbers does before its program runs is asked here.
"""

from sdbr.base.reasons import Remedy
from sdbr.trace.current import current

import numpy as np

_EXACT = 2**53  # whole numbers up to here are floats
KINDS = (float, np.float64)
cdef tuple _SHORT = (np.float32, np.float16)  # each of them is a float of Python, too


cdef class Scalar:
    """A number that each call looks up or computes anew.

    Attributes
    ----------
    name : str
        How a program listing calls it.
    token : object
        Of the recorder that made it: what an earlier trace left behind is an ordinary number.
    roots : tuple of Scalar
        The attributes and arguments that it is computed from; itself when it is one.
    keyed : bool
        Whether it has to be what it was in the trace.
    depth : int
    kind : type
        What it was in the trace: ``float``, ``numpy.float64`` or ``int``.
    """

    cdef readonly str name
    cdef readonly object token
    cdef readonly tuple roots
    cdef public bint keyed
    cdef readonly int depth
    cdef readonly object kind

    def __init__(self, str name, token, roots=None, int depth=0, kind=float):
        self.name = name
        self.kind = kind
        self.token = token
        self.roots = (self,) if roots is None else roots
        self.keyed = False
        self.depth = depth

    cpdef object evaluate(self, floats):
        """The value now; `floats` are the floats among the arguments, in a sequence."""
        raise NotImplementedError

    cpdef must_stay(self):
        """Let it have to be what it was in the trace."""
        for root in self.roots:
            root.keyed = True

    def __repr__(self):
        return f"<{type(self).__name__} {self.name}>"

    @property
    def changes(self):
        """Whether it can be another number in another call."""
        return not all([root.keyed for root in self.roots])


cdef class ScalarAttribute(Scalar):
    """``link.name``, or what lies in a `Place`, which stands for a link."""

    cdef readonly object link
    cdef readonly object holder
    cdef readonly object attribute

    def __init__(self, link, attribute, token, kind=float):
        Scalar.__init__(self, attribute, token, kind=kind)
        self.link = link
        self.holder = link.__dict__
        self.attribute = attribute

    cpdef object evaluate(self, floats):
        return self.holder[self.attribute]


cdef class ScalarArgument(Scalar):
    """Float number `position` among the arguments, in their order."""

    cdef readonly int position

    def __init__(self, int position, str name, token, kind=float):
        Scalar.__init__(self, name, token, kind=kind)
        self.position = position

    cpdef object evaluate(self, floats):
        number = floats[self.position]
        return float(number) if type(number) in _SHORT else number


cdef class Derived(Scalar):
    """What Python computed from others."""

    cdef readonly object function
    cdef readonly tuple parts

    def __init__(self, function, tuple parts, kind=float):
        sources = [p for p in parts if isinstance(p, Scalar)]
        roots = tuple({id(r): r for s in sources for r in s.roots}.values())
        names = ", ".join([p.name if isinstance(p, Scalar) else _shown(p) for p in parts])
        name = f"{function.__name__}({names})"
        name = name if len(name) < 60 else "computed"
        depth = 1 + max([s.depth for s in sources])
        Scalar.__init__(self, name, sources[0].token, roots, depth, kind)
        self.function = function
        self.parts = parts

    cpdef object evaluate(self, floats):
        return applied(self.function, self.parts, floats)


cdef object applied(function, tuple parts, floats):
    """The function of its parts, as they are now."""
    if len(parts) == 2:
        return function(now(parts[0], floats), now(parts[1], floats))
    return function(*[now(part, floats) for part in parts])


cdef inline object now(part, floats):
    return (<Scalar> part).evaluate(floats) if isinstance(part, Scalar) else part


def _shown(number):
    return f"{number:.4g}" if type(number) is float else f"{number!r:.20}"


cdef class Left(Scalar):
    """A number that the call has computed and turned into one of Python, or what became of it.

    Attributes
    ----------
    plain : ndarray
        The number, without dimensions.
    value : Value
        What it is in the trace. No view is kept here: it would look as if the user held it.
    text : str
        What to say where it cannot be followed.
    whole : tuple of Left
        The whole numbers of the call that it is computed from, where it is of such alone.
    """

    cdef readonly object plain
    cdef readonly object value
    cdef readonly str text
    cdef public tuple whole

    def __init__(self, plain, value, str text, token, kind=float):
        Scalar.__init__(self, "a number of the call", token, kind=kind)
        self.plain = plain
        self.value = value
        self.text = text
        self.whole = (self,) if kind is int else ()

    cpdef must_stay(self):
        """Where it cannot be followed, the call is dynamic, or asks for the whole numbers in it."""
        recorder = current()
        if recorder is None or recorder.depth:
            return
        if recorder.meeting.leave_value(self.value):
            return
        if not self.whole:
            recorder.mark_dynamic(self.text, Remedy.STAY_ARRAYS)
        for number in self.whole:
            array = recorder.leaving.array_of(number)
            recorder.questions.ask(array, int, int(number.plain), number.text)


cdef class Condition:
    """A comparison that the traced code made, and how it came out."""

    cdef readonly object function
    cdef readonly tuple parts
    cdef readonly bint outcome

    def __init__(self, function, tuple parts, bint outcome):
        self.function = function
        self.parts = parts
        self.outcome = outcome

    def __repr__(self):
        parts = ", ".join([p.name if isinstance(p, Scalar) else repr(p) for p in self.parts])
        return f"{self.function.__name__}({parts})"

    @property
    def scalars(self):
        """The numbers that may be others now."""
        return [p for p in self.parts if isinstance(p, Scalar)]

    cpdef bint holds(self, floats) except -1:
        """Whether it comes out the same now."""
        try:
            return bool(applied(self.function, self.parts, floats)) == self.outcome
        except (ArithmeticError, KeyError, TypeError, ValueError):
            return False


def whole_numbers(parts):
    """The whole numbers that make up all of `parts`; none where something else may change."""
    changing = [part for part in parts if isinstance(part, Scalar) and part.changes]
    if not all([type(part) is Left and part.whole for part in changing]):
        return ()
    return tuple(dict.fromkeys([number for part in changing for number in part.whole]))


def values_now(list scalars, floats):
    """What each of `scalars` is now, in a list; None when one cannot be computed or is no float."""
    cdef Scalar s
    try:
        values = [_as_float(s.evaluate(floats), s) for s in scalars]
    except (ArithmeticError, KeyError, TypeError, ValueError):
        return None
    return values if all([type(x) in KINDS for x in values]) else None


cdef object _as_float(x, Scalar scalar):
    """A whole number that an op receives, where it is one of floats as well."""
    return float(x) if type(x) is int is scalar.kind and abs(x) <= _EXACT else x


def kept_now(list scalars, floats):
    """What each of `scalars` is now, exactly; None when one is no number of the kind it was."""
    cdef Scalar s
    try:
        values = [s.evaluate(floats) for s in scalars]
    except (ArithmeticError, KeyError, TypeError, ValueError):
        return None
    return values if all([type(x) is s.kind for x, s in zip(values, scalars)]) else None


def written_by(Condition condition, set written):
    """Whether it looks at an attribute among `written`, ``(id(link), name)``."""
    roots = [root for scalar in condition.scalars for root in scalar.roots]
    return any([type(r) is ScalarAttribute and (id(r.link), r.attribute) in written for r in roots])


def is_computed(number):
    """Of a condition: there is one, since nothing has raised."""
    return True


def parts_of(list scalars):
    """All that they are computed from, and they themselves, in a set."""
    cdef set found = set()
    cdef list left = [*scalars]
    while left:
        scalar = left.pop()
        if scalar not in found:
            found.add(scalar)
            left += scalars_in(getattr(scalar, "parts", ()))
    return found


def lies_outside(Condition condition):
    """Whether it looks at a number outside of links, where nobody counts what is written."""
    roots = [root for scalar in condition.scalars for root in scalar.roots]
    return any([type(r) is ScalarAttribute and type(r.holder) is not dict for r in roots])


def scalars_in(thing):
    """The numbers in a structure of dicts, lists and tuples, in a list."""
    if isinstance(thing, Scalar):
        return [thing]
    if isinstance(thing, dict):
        thing = thing.values()
    elif not isinstance(thing, (list, tuple)):
        return []
    return [s for t in thing for s in scalars_in(t)]


def shown_scalars(trace):
    """The numbers that a call returns or reports, in order, in a list."""
    return scalars_in([trace.result, [report.items for report in trace.reports]])


def neutral_label(node):
    """Chainer's label of a node with the names of its scalars in the place of their values."""
    label = node.label
    for name, _, scalar in node.scalars:
        value = getattr(node.template, name, None)
        if type(value) in KINDS:
            label = label.replace(f"({value})" if value < 0 else str(value), scalar.name)
    return label
