"""Cases of the tables, define-by-run: of which dtypes and shapes is what they give."""

from __future__ import annotations

import chainer
import numpy as np

from tests.equivalence.cases import CASES as OF_FUNCTIONS
from tests.equivalence.harness import TRAINING, Case, as_inputs, configured
from tests.equivalence.link_cases import CASES as OF_LINKS
from tests.on_cupy.apart import APART as APART_FROM_THE_HOST
from tests.on_cupy.apart import CONSTANT, SAMPLER
from tests.on_cupy.harness import _link, all_of, moved, run_case, seeded

VALUES = "shapes depend on values, which kernels do not make here"
LIBRARY = "a library of CUDA's that needs a GPU"
APART = {
    **{k: why for k, why in APART_FROM_THE_HOST.items() if why in (CONSTANT, SAMPLER)},
    "copy": "to the CPU: the gradient would have to be there",
    "get_item mask beside an index": VALUES,
    "fft": LIBRARY,
    "ifft": LIBRARY,
}
CASES = [case for case in [*OF_FUNCTIONS, *OF_LINKS] if case.id not in APART]
#: Where an axis is as long as values say.
SHAPED_BY_VALUES = {
    "get_item",
    "repeat",
    "classification_summary",
    "precision",
    "recall",
    "f1_score",
}


def looks(case: Case, record: dict) -> dict[str, list]:
    """What is compared: dtypes, and shapes where these do not depend on values."""
    return {
        part: [None if x is None else (_kind(x.dtype), _shape(case, x)) for x in record[part]]
        for part in ("outputs", "gradients")
    }


def _kind(dtype) -> str:
    return "integer" if dtype.kind in "iu" else dtype.name  # indices are of other widths there


def _shape(case, x):
    return None if case.name in SHAPED_BY_VALUES else x.shape


def possible(case: Case, dtype: str):
    """What the host gives; None where it takes no such dtype."""
    try:
        return run_case(case, dtype, on_cupy=False)
    except Exception:
        if dtype in case.dtypes:
            raise
        return None


def second(case: Case, dtype: str, on_cupy: bool) -> list:
    """Dtypes of gradients and of gradients of these; none where there are none."""
    xs = as_inputs(moved(case.data(0, dtype), on_cupy), "variables")
    with configured(case, dtype, TRAINING), seeded():
        link = _link(case, on_cupy)
        ys = all_of(case.call(*xs) if link is None else case.call(link, *xs))
    ys = [
        y for y in ys if isinstance(y, chainer.Variable) and y.creator_node and y.dtype.kind == "f"
    ]
    wanted = [x for x in xs if isinstance(x, chainer.Variable)]
    if not (ys and wanted):
        return []
    rng = np.random.default_rng(1)
    gys = [np.asarray(rng.standard_normal(y.shape), y.dtype) for y in ys]
    gys = [chainer.Variable(x) for x in moved(gys, on_cupy)]
    with configured(case, dtype, TRAINING):
        first = chainer.grad(ys, wanted, gys, enable_double_backprop=True)
        ends = [g for g in first if g is not None and g.creator_node is not None]
        if not ends:
            return [_dtype(g) for g in first]
        ones = [chainer.Variable(g.xp.ones_like(g.array)) for g in ends]
        return [_dtype(g) for g in [*first, *chainer.grad(ends, [*wanted, *gys], ones)]]


def _dtype(variable):
    return None if variable is None else variable.dtype
