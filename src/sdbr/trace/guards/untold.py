"""What a call reads of its arguments that its key does not tell of."""

from __future__ import annotations

import enum

from sdbr.trace.values import OF_VARIABLES
from sdbr.trace.watch._following import is_library_class
from sdbr.trace.watch._looks import class_attribute, field, is_a
from sdbr.trace.watch.reads import Reads, value_print
from sdbr.trace.watch.sources import MISSING, Source, hold

import chainer

#: Arguments of which the key tells what Python and Chainer know of them, and no more.
_LEAVES = (chainer.Variable, float, int, str, bytes, complex)


def untold(reads: Reads, known: list[bool], values: list) -> list[str]:
    """Where the call reads what its user has put on a Variable, or a number of a class of his own.

    What the class has is compared from now on.

    Parameters
    ----------
    reads : Reads
    known : list of bool
        Whether a source is an argument, or was reached from one.
    values : list
        What lies at each source; those of new ones are added.
    """
    found, classes = [], {}
    for source in [s for s in reads.sources if s.parent is not None]:
        if source.kind not in ("attribute", "field") or not known[source.parent.number]:
            continue
        thing = values[source.parent.number]
        if not is_a(thing, _LEAVES) or is_a(thing, (enum.Enum,)) or source.key in OF_VARIABLES:
            continue
        if field(thing, source.key) is not MISSING:
            found.append(str(source))
        elif not is_library_class(type(thing)):
            classes[type(thing), source.key] = class_attribute(type(thing), source.key)
    for (kind, name), what in classes.items():
        if what is not MISSING:
            of = reads.add_source(Source("constant", None, hold(kind), kind.__name__))
            reads.add(
                reads.add_source(Source("attribute", of, name)), "value", None, value_print(what)
            )
            values += [kind, what]
    return found
