"""Networks that make images and sounds replay as define-by-run, and hold no Python op."""

import pytest

from . import generators
from .harness import check

NETWORKS = [
    generators.Dcgan,
    generators.DcganExample,
    generators.Vae,
    generators.VaeOfDistributions,
    generators.UNet,
    generators.WaveNet,
]


@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.__name__)
def test_no_python_op(network):
    check(network)
