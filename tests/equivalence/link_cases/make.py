"""How the cases of links are written."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import chainer
import numpy as np

from tests.equivalence.harness import Case

#: Links that make Python ops, and an option that does: see test_python_ops.py for the reasons.
IN_PYTHON = {
    "BatchRenormalization",
    "BinaryHierarchicalSoftmax",
    "BlackOut",
    "DecorrelatedBatchNormalization",
    "DeformableConvolution2D",
    "LocalConvolution2D",
    "NegativeSampling",
    "SpectralNormalization",
    "TheanoFunction",
    "finetune",
}


def own_call(link, *xs):
    """The call of the link itself: such a case is tried on the wrapped link, too."""
    return link(*xs)


def case(
    name: str, link: Callable[[], chainer.Link], inputs: Sequence, call=own_call, **more
) -> Case:
    """A case for a link; `call` takes the link first. It is native unless `IN_PYTHON` says no."""
    more.setdefault("native", not any(word in IN_PYTHON for word in name.split()))
    return Case(name, call, inputs, link=link, **more)


def shaken(link: chainer.Link) -> chainer.Link:
    """The link with random numbers in all its parameters, where Chainer starts from constants."""
    for _, p in sorted(link.namedparams()):
        p.array = np.random.standard_normal(p.shape).astype(chainer.config.dtype)
    return link
