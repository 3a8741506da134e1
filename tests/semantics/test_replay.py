"""Row 1: replays equal define-by-run, iteration by iteration, for models as people write them."""

from __future__ import annotations

import pytest
from chainer import optimizers

from tests.harness.comparison import BACKENDS, check
from tests.harness.models import MODELS, Recurrent, data, floats


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", MODELS)
def test_training(name, backend):
    make, fresh, native = MODELS[name]
    python_ops = None if native is None else not native
    lazy = name.startswith("lazy")
    check(
        make, fresh, backend=backend, optimizer=optimizers.Adam, python_ops=python_ops,
        traces=1, steps=5 + lazy,
    )  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", MODELS)
def test_test_mode(name, backend):
    make, fresh, _native = MODELS[name]
    check(make, fresh, backend=backend, train=False)


@pytest.mark.parametrize("backend", BACKENDS)
def test_state_and_reset(backend):
    def between(model, i):
        if i == 4:
            model.rnn.reset_state()

    # Call 1 starts without state, call 2 with; after the reset the first schedule serves again.
    check(
        Recurrent, data(floats(2, 3)), backend=backend, steps=9, between=between, traces=2,
        optimizer=optimizers.SGD,
    )  # fmt: skip
