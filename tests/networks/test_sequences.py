"""Networks that read sequences replay as define-by-run, and hold no Python op."""

import pytest

from . import sequences
from .harness import check

NETWORKS = [
    sequences.PtbUnrolled,
    sequences.PtbStateful,
    sequences.Seq2seq,
    sequences.TransformerEncoder,
]


@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.__name__)
def test_no_python_op(network):
    check(network)
