"""How the rows of links are written."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import chainer
import numpy as np

from equivalence.harness import Case


def own_call(link, *xs):
    """The call of the link itself: such a row is tried on the wrapped link, too."""
    return link(*xs)


def row(
    name: str, link: Callable[[], chainer.Link], inputs: Sequence, call=own_call, **more
) -> Case:
    """A case for a link; `call` takes the link first."""
    return Case(name, call, inputs, link=link, **more)


def shaken(link: chainer.Link) -> chainer.Link:
    """The link with random numbers in all its parameters, where Chainer starts from constants."""
    for _, p in sorted(link.namedparams()):
        p.array = np.random.standard_normal(p.shape).astype(chainer.config.dtype)
    return link
