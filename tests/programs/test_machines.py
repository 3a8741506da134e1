"""What a backend asks for is in its programs, and in no others."""

from __future__ import annotations

import sdbr
from sdbr.backends import BACKENDS, MACHINES
from sdbr.base.errors import BackendError
from sdbr.program.buffers import BOUND
from sdbr.program.machine import Machine

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import assert_near
from tests.harness.models import Net
from tests.tolerances import GRADIENTS, RESULTS

ORDERS = [("cython", "numpy"), ("numpy", "cython")]


def images():
    """Each op of the family; how many there are in a forward and a backward."""

    def forward(self, x):
        return F.sum(F.square(self.back(F.relu(self.there(x)))))

    net = Net(forward, there=L.Convolution2D(2, 4, 3), back=L.Deconvolution2D(4, 2, 3))
    return net, (np.random.RandomState(0).randn(3, 2, 8, 8).astype("f"),), (2, 3)


def paths():
    """Paths through labels."""
    labels = np.random.RandomState(1).randint(1, 5, (3, 2)).astype("i")

    def forward(self, x):
        steps = [self.l(x[i]) for i in range(6)]
        return F.connectionist_temporal_classification(steps, labels, 0)

    net = Net(forward, l=L.Linear(4, 5))
    return net, (np.random.RandomState(0).randn(6, 3, 4).astype("f"),), (1, 0)


def rooms(schedule):
    """How many rows of scratch memory the forward and the full backward have."""
    programs = schedule.programs["forward"], schedule.programs["backward"][0]
    return tuple(program.row_names.count("scratch") for program in programs)


def run(model, args):
    """A call, and the gradients of one."""
    model.cleargrads()
    y = model(*args)
    y.backward()
    return [y.array, *[p.grad for p in model.params()]]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("make", [images, paths])
def test_memory_that_kernels_work_in_is_for_those_kernels_alone(make, order):
    net, args, expected = make()
    want = run(net, args)
    model = sdbr.static_graph(net)
    found = {}
    for backend in order * 3:
        with chainer.using_config("sdbr_backend", backend):
            got = run(model, args)
            schedule = model.schedule_manager.static_schedule
            assert schedule.backend == backend
        assert_near(got[0], want[0], RESULTS, backend)
        for g, w in zip(got[1:], want[1:], strict=True):
            assert_near(g, w, GRADIENTS, backend)
        # The programs of a backend are made once.
        assert found.setdefault(backend, schedule.forward) is schedule.forward
        assert rooms(schedule) == (expected if backend == "cython" else (0, 0))
    assert found["cython"] is not found["numpy"]
    statistics = model.schedule_manager.statistics
    assert (statistics.traces, statistics.python_ops) == (1, 0)


def test_programs_that_are_as_a_backend_takes_them_are_shared_with_it():
    model = sdbr.static_graph(Net(lambda self, x: F.sum(F.tanh(self.l(x))), l=L.Linear(4, 3)))
    found = set()
    for backend in ("cython", "numpy", "cython"):
        with chainer.using_config("sdbr_backend", backend):
            run(model, (np.ones((2, 4), "f"),))
            found.add(model.schedule_manager.static_schedule.forward)
    assert len(found) == 1


def test_programs_are_not_shared_where_passes_are_told_other_numbers(monkeypatch):
    monkeypatch.setitem(MACHINES, "numpy", Machine(shortest_fused=1))
    model = sdbr.static_graph(
        Net(lambda self, x: F.sum(F.tanh(self.l(x)) * 2 + 1), l=L.Linear(4, 3))
    )
    fused = {}
    for backend in ORDERS[0] * 2:
        with chainer.using_config("sdbr_backend", backend):
            run(model, (np.ones((2, 4), "f"),))
            program = model.schedule_manager.static_schedule.programs["forward"]
            fused[backend] = " fused " in program.disassemble()
    assert fused == {"cython": False, "numpy": True}


def test_a_whole_step_is_made_for_its_backend():
    def step(backend):
        net, args, _ = images()
        model = sdbr.static_graph(net)
        optimizer = sdbr.static_optimizer(chainer.optimizers.Adam()).setup(model)
        with chainer.using_config("sdbr_backend", backend):
            for _ in range(3):
                optimizer.update(model, *args)
        return model.schedule_manager.static_schedule.programs["step"].row_names.count("scratch")

    assert (step("cython"), step("numpy")) == (5, 0)


@pytest.mark.parametrize("make", [images, paths])
def test_a_program_that_lacks_what_kernels_need_is_refused(make):
    net, args, _ = make()
    model = sdbr.static_graph(net)
    with chainer.using_config("sdbr_backend", "numpy"), chainer.no_backprop_mode():
        model(*args)
        program = model.schedule_manager.static_schedule.programs["forward"]
    inputs = [np.zeros(slot.shape, slot.dtype) for slot in program.slots if slot.kind == BOUND]
    program.run(inputs)
    with pytest.raises(BackendError, match=r"op '(convolution|ctc)'.* scratch memory"):
        program.run(inputs, backend="cython")


def test_every_backend_says_what_it_wants():
    assert MACHINES.keys() == BACKENDS.keys()
