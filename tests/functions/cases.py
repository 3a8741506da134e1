"""The functions that are native, of the table of equivalence: name, function, arguments.

Each takes and gives Variables alone; without a tracer, arrays taken from them would stay as they
are.
"""

from __future__ import annotations

from tests.equivalence.tables import STATIC, some_of

# Arrays go in or come out, or NumPy computes with them on the way.
ARRAYS = {
    "argmax_crf1d",
    "batch_normalization running",
    "ceil",
    "discriminative_margin_based_clustering_loss",
    "dropout mask",
    "dropout return_mask",
    "fix",
    "floor",
    "gaussian eps",
    "gaussian return_eps",
    "get_item of an array",
    "max_pooling_1d return_indices",
    "max_pooling_2d integers kept",
    "max_pooling_2d return_indices",
    "max_pooling_3d return_indices",
    "rrelu given",
    "rrelu return_r",
    "sign",
    "simplified_dropconnect mask",
    "softmax_cross_entropy kl",
    "softmax_cross_entropy twice",
    "softmax_cross_entropy twice, no, ignored, 3-D",
    "upsampling_2d",
    "where condition of the call",
}


def _suits(case) -> bool:
    # Of several functions; `forget` runs those of its argument, which a trace alone takes apart.
    nested = case.name.startswith("n_step_") or case.name == "forget"
    plain = not (nested or case.draws or case.id in ARRAYS)
    return case.native and case.dtypes == "fd" and plain


def _rows(cases) -> list[tuple]:
    return [(case.id, case.call, case.inputs) for case in cases]


CASES = _rows(case for case in STATIC if _suits(case))
#: At most three of each name.
SOME = _rows(some_of(case for case in STATIC if _suits(case)))
