"""The programs of traced models: in a plain interpreter, without passes, in memory."""

from __future__ import annotations

import sdbr
import sdbr.backends
from sdbr.base.dtypes import DTYPES
from sdbr.ops.table import OPS
from sdbr.program import passes
from sdbr.program.memory import check_overlaps

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import optimizers

from tests.harness.comparison import BACKENDS, check
from tests.harness.models import MODELS, Recurrent, data, floats
from tests.harness.programs import STEP_MODELS, programs_of
from tests.harness.steps import BATCH, OPTIMIZERS, classifier, compare
from tests.tolerances import RESULTS


class Interpreter:
    """Reads the flat arrays and nothing else; the arithmetic is that of the NumPy reference."""

    def __init__(self, program, memory):
        self.program, self.memory = program, memory

    def operand(self, index):
        p, row = self.program, self.program.rows[index]
        start, middle = row["dims"], row["dims"] + row["ndim"]
        shape, strides = p.dims[start:middle], p.dims[middle : middle + row["ndim"]]
        owner = self.memory.array(p.slots[row["slot"]].index)
        return np.ndarray(shape, DTYPES[row["type"]], owner, row["offset"], strides)

    def run(self):
        p = self.program
        numbers = p.float_attributes.copy()
        for place, source in p.control_references.tolist():
            numbers[place] = self.memory.get_control(source)
        for i, code in enumerate(p.opcodes.tolist()):
            rows = p.operands[p.operand_offsets[i] : p.operand_offsets[i + 1]]
            operands = [self.operand(r) for r in rows]
            cut = len(operands) - p.n_outputs[i]
            ins, outs = operands[:cut], operands[cut:]
            (a, b), (c, d) = p.attribute_offsets[i : i + 2]
            ints, op = p.int_attributes[a:c].tolist(), OPS[code]
            attributes = op.attributes(ints, numbers[b:d].tolist())
            if op.name == "python":
                p.objects[ints[0]](self.memory, ins, outs)
            elif op.direct:
                op.formula(ins, outs, attributes)
            else:
                with np.errstate(all="ignore"):
                    results = op.formula(*ins, **attributes)
                for out, y in zip(
                    outs, results if type(results) is tuple else (results,), strict=True
                ):
                    out[...] = y


@pytest.fixture
def interpreted(monkeypatch):
    """Every program runs in the interpreter; gives the list of those that did."""
    programs = []

    def make(program, memory):
        programs.append(program)
        return Interpreter(program, memory)

    monkeypatch.setattr(sdbr.backends, "_load", lambda backend: make)
    return programs


@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_plain_interpreter(name, train, interpreted):
    make, fresh, _ = MODELS[name]
    check(make, fresh, backend="numpy", train=train, steps=3 + name.startswith("lazy"))
    names = {program.name for program in interpreted}
    assert names == ({"forward", "backward"} if train else {"forward"})


@pytest.mark.parametrize("name", STEP_MODELS)
def test_whole_steps_in_the_plain_interpreter(name, interpreted):
    make, batch, _ = MODELS[name]
    compare(make, batch, OPTIMIZERS["adam"], backend="numpy", steps=5, native=False)
    # The first, traced step is Chainer's own, its update included.
    assert [program.name for program in interpreted] == ["step"]


# --- memory -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_no_two_live_buffers_overlap(name):
    make, fresh, _ = MODELS[name]
    for memory in ("default", "no_reuse"):
        model = check(make, fresh, steps=2 + name.startswith("lazy"), memory=memory)
        programs = programs_of(model)
        assert len(programs) >= 2
        for program in programs:
            assert check_overlaps(program.instructions, program.kept) == []


@pytest.mark.parametrize("name", STEP_MODELS)
def test_no_two_live_buffers_of_a_step_overlap(name):
    make, batch, _ = MODELS[name]
    model, _ = compare(make, batch, OPTIMIZERS["adam"], steps=3, native=False)
    (step,) = [p for p in programs_of(model) if p.name == "step"]
    assert check_overlaps(step.instructions, step.kept) == []


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", MODELS)
def test_without_reuse_of_memory(name, backend):
    make, fresh, _ = MODELS[name]
    steps = 3 + name.startswith("lazy")
    check(make, fresh, backend=backend, steps=steps, memory="no_reuse")


def test_reuse_saves_memory():
    sizes = {}
    for memory in ("default", "no_reuse"):
        model, _ = compare(classifier, BATCH, OPTIMIZERS["adam"], steps=3, memory=memory)
        (step,) = [p for p in programs_of(model) if p.name == "step"]
        sizes[memory] = step.arena_bytes
    assert sizes["default"] < sizes["no_reuse"]


# --- passes -------------------------------------------------------------------------------------
OFF = [*passes.PASSES, ",".join(passes.PASSES)]


@pytest.mark.parametrize("off", OFF)
@pytest.mark.parametrize("name", MODELS)
def test_without_passes(name, off):
    make, fresh, _ = MODELS[name]
    with chainer.using_config("sdbr_disabled_passes", off):
        check(make, fresh, optimizer=optimizers.Adam, steps=3 + name.startswith("lazy"))


@pytest.mark.parametrize("off", OFF)
@pytest.mark.parametrize("name", STEP_MODELS)
def test_whole_steps_without_passes(name, off):
    make, batch, _ = MODELS[name]
    with chainer.using_config("sdbr_disabled_passes", off):
        compare(make, batch, OPTIMIZERS["adam"], steps=4, native=False)


@pytest.mark.parametrize("off", OFF)
def test_recurrent_without_passes(off):
    with chainer.using_config("sdbr_disabled_passes", off):
        check(Recurrent, data(floats(2, 3)), steps=6, traces=2)


def forward_program(function, off):
    """The forward program of a function without backprop, with one pass off."""
    static = sdbr.static_graph(function)
    x = np.random.RandomState(0).rand(30, 40).astype("f")
    with chainer.using_config("sdbr_disabled_passes", off), chainer.no_backprop_mode():
        for _ in range(2):
            static(x)
    return static.schedule_manager.static_schedule.programs["forward"]


def unused(x):
    F.exp(x)
    return F.tanh(x)


def layers(x):
    return F.relu(F.linear(x, np.ones((3, 40), "f")))


def convolved(x):
    h = F.relu(F.convolution_2d(x[None, None], np.ones((3, 1, 3, 2), "f"), pad=1))
    return F.relu(F.deconvolution_2d(h, np.ones((3, 2, 2, 2), "f"), stride=2))


def rising(x):
    return F.sum(F.sqrt(F.exp(F.tanh(x) * 2) + 1))


def test_dead_code_goes():
    off = "elementwise"
    assert len(forward_program(unused, off)) == 1
    assert len(forward_program(unused, f"{off},dead_code")) == 2


def test_activations_are_fused():
    assert [len(forward_program(layers, off)) for off in ("", "fusion")] == [1, 2]
    assert [len(forward_program(convolved, off)) for off in ("", "fusion")] == [2, 4]


def test_results_are_written_where_they_are_handed_out():
    off = "elementwise"
    assert [len(forward_program(F.tanh, o)) for o in (off, f"{off},views")] == [1, 2]


def test_results_take_over_memory():
    off = "elementwise"
    sizes = [forward_program(rising, off).arena_bytes for off in (off, f"{off},inplace")]
    assert sizes[0] < sizes[1]


def test_unknown_pass():
    static = sdbr.static_graph(lambda x: x * 2)
    with (
        chainer.using_config("sdbr_disabled_passes", "magic"),
        pytest.raises(ValueError, match=r"unknown \['magic'\].*dead_code"),
    ):
        for _ in range(2):
            static(np.ones(3, "f"))


def test_schedule_shows_its_programs():
    model, _ = compare(classifier, BATCH, OPTIMIZERS["adam"], steps=3)
    programs = model.schedule_manager.static_schedule.programs
    assert {"forward", "backward", "step"} <= programs.keys()
    assert "adam" in programs["step"].disassemble()
    assert "models.py" in programs["step"].disassemble()


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_reduction_of_a_broadcast_view(axis):
    @sdbr.static_graph
    def f(x):
        y = F.broadcast_to(x, (2, 3, 4))
        return F.mean(y, axis) + F.sum(y, axis) + F.max(y, axis) + F.logsumexp(y, axis)

    for seed in range(3):
        x = chainer.Variable(np.random.RandomState(seed).randn(2, 1, 4).astype("f"))
        np.testing.assert_allclose(f(x).array, f._sdbr_function(x).array, RESULTS, RESULTS)
    assert f.schedule_manager.statistics.replays == 2
