"""Networks that act replay as define-by-run, and hold no Python op."""

import pytest

from . import agents
from .harness import check

NETWORKS = [
    agents.Dqn,
    agents.Ppo,
]


@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.__name__)
def test_no_python_op(network):
    check(network)
