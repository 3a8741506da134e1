"""Networks on a GPU without a GPU: replays as define-by-run, whose ops are kernels."""

import chainer
import pytest

from tests.harness import device

from . import agents, classifiers, sequences
from .harness import check

CONVOLUTION = {"convolution", "convolution_grad_x", "convolution_grad_w"}
#: Network -> ops of it that have no kernel yet.
NETWORKS = {
    sequences.PtbUnrolled: set(),
    sequences.PtbStateful: set(),
    sequences.Seq2seq: set(),
    sequences.TransformerEncoder: {"group_norm", "group_norm_grad"},
    agents.Dqn: CONVOLUTION,
    agents.Ppo: CONVOLUTION,
    classifiers.LeNet: {*CONVOLUTION, "max_pooling_index", "max_pooling_grad"},
}


@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.__name__)
def test_kernels(network):
    with device.simulated() as made, chainer.using_config("sdbr_backend", device.NAME):
        check(network)
    assert {name for executable in made for name in executable.others} == NETWORKS[network]
    if not NETWORKS[network]:
        assert all(len(executable.parts) == 1 for executable in made)


@pytest.mark.parametrize("form", ["branches", "programmatic", "programmatic branches"])
@pytest.mark.parametrize(
    "network", [sequences.PtbUnrolled, sequences.TransformerEncoder, agents.Dqn]
)
def test_kernels_in_another_order(network, form):
    """Backwards, as far as what they wait for allows."""
    with (
        device.in_order(2),
        device.simulated(form=form) as made,
        chainer.using_config("sdbr_backend", device.NAME),
    ):
        check(network)
    assert all(set(x.program.forms.values()) == {form} for x in made if x.graphs)
