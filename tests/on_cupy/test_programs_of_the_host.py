"""What is written in place: programs of the tests for arrays of NumPy, on arrays of CuPy."""

import types
import warnings

import sdbr

import chainer
import chainer.functions as F
import cupy
import numpy as np
import pytest

from tests.harness import lasting_programs as lasting
from tests.harness import writing_programs as writes
from tests.harness.comparison import assert_near
from tests.tolerances import GRADIENTS

from .harness import DEVICE
from .programs import seen

CALLS = 8

#: Which of several values stays that are written to one place is nobody's promise there.
UNDEFINED = {writes.duplicates, writes.negative_indices}
#: What they call is not there.
MISSING = {
    writes.out_where, writes.masked_array, writes.sorted_view, writes.sorted_by_percentile
}  # fmt: skip
#: An index without dimensions makes a copy there, and positions of ``out`` are known.
STATIC = [writes.part_of_row_by_argmin, writes.part_seen_by_argmin, writes.out_as_a_position]


def on_cupy(function):
    """The function with CuPy under the name ``np``."""
    return types.FunctionType(
        function.__code__,
        {**function.__globals__, "np": cupy},
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )


def programs(functions, *, but=()):
    chosen = [function for function in functions if function not in but]
    return pytest.mark.parametrize("forward", [*map(on_cupy, chosen)], ids=lambda f: f.__name__)


def moved(model):
    """The model on the GPU, with all of its arrays."""
    model.to_device(DEVICE)
    for link in model.links():
        for name, thing in list(link.__dict__.items()):
            if isinstance(thing, np.ndarray):
                link.__dict__[name] = cupy.asarray(thing)
    return model


def state(model) -> dict:
    """All arrays of links, with gradients."""
    found = {}
    for path, link in model.namedlinks():
        for name, thing in sorted(link.__dict__.items()):
            if isinstance(thing, (chainer.Variable, cupy.ndarray)):
                found[f"{path}/{name}"] = seen(thing)
            if isinstance(thing, chainer.Parameter):
                found[f"gradient of {path}/{name}"] = seen(thing.grad)
    return found


def call(model, args) -> dict:
    """A call with its backward, and all that a user can see of it."""
    result = model(*args)
    parts = result if isinstance(result, tuple) else (result,)
    found = {"result": [seen(part) for part in parts]}
    model.cleargrads()
    F.sum(parts[0] * parts[0]).backward()
    found.update(state(model), arguments=[seen(x) for x in args])
    return {**found, "next draw": seen(cupy.random.rand(2))}


def assert_same(got, want, path: str) -> None:
    assert type(got) is type(want), path
    if isinstance(want, dict):
        assert list(got) == list(want), path
        for key in want:
            assert_same(got[key], want[key], f"{path}, {key}")
    elif isinstance(want, (list, tuple)):
        for a, b in zip(got, want, strict=True):
            assert_same(a, b, path)
    elif isinstance(want, np.ndarray):
        assert_near(got, want, GRADIENTS, path)
    else:
        assert got == want, path


def run(make, given, static: bool, optimizer=None) -> tuple:
    """The model after some calls, or steps with an optimizer, and what was seen of each."""
    np.random.seed(0)
    model = moved(make())
    if static:
        model = sdbr.static_graph(model)
    if optimizer is not None:
        made = optimizer()
        optimizer = (sdbr.static_optimizer(made) if static else made).setup(model)
    found = []
    for i in range(CALLS):
        cupy.random.seed(i)
        args = [cupy.asarray(x) for x in given(i)]
        if optimizer is None:
            found.append(call(model, args))
        else:
            optimizer.update(model, *args)
            found.append(state(model))
    return model, found


def compared(make, given, optimizer=None) -> tuple:
    """Statistics, and what was said, of a static model that does what a plain one does."""
    _, want = run(make, given, False, optimizer)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", sdbr.SdbrWarning)
        model, got = run(make, given, True, optimizer)
    for i, (a, b) in enumerate(zip(got, want, strict=True)):
        assert_same(a, b, f"call {i}")
    said = [str(w.message) for w in caught if issubclass(w.category, sdbr.SdbrWarning)]
    return model.schedule_manager.statistics, said


def assert_replayed(statistics, said) -> None:
    assert not said
    assert statistics.replays >= 5, statistics
    assert statistics.define_by_run_calls == 0


@programs(writes.NATIVE, but=UNDEFINED)
def test_writes_are_native(forward):
    statistics, said = compared(lambda: writes.Writing(forward), writes.given)
    assert_replayed(statistics, said)
    assert statistics.python_ops == 0


@programs([*writes.BY_NUMPY, *STATIC], but=MISSING)
def test_writes_that_cupy_makes_replay(forward):
    assert_replayed(*compared(lambda: writes.Writing(forward), writes.given))


@programs(writes.DYNAMIC, but={*MISSING, *STATIC})
def test_writes_that_others_would_see_are_dynamic(forward):
    statistics, said = compared(lambda: writes.Writing(forward), writes.given)
    assert said
    assert statistics.replays == 0


@programs(lasting.PROGRAMS)
def test_what_was_read_before_a_write_is_what_it_was(forward):
    assert_replayed(*compared(lambda: lasting.Held(forward), lambda i: [lasting.x_of(i)]))


@programs(lasting.WHOLE)
def test_whole_steps(forward):
    made = compared(
        lambda: lasting.Held(forward), lambda i: [lasting.x_of(i)], chainer.optimizers.Adam
    )
    assert_replayed(*made)
    assert made[0].steps >= 5


@programs(lasting.WEIGHTS)
@pytest.mark.parametrize("optimizer", [None, chainer.optimizers.Adam])
def test_weights_that_are_written(forward, optimizer):
    statistics, said = compared(
        lambda: lasting.Twins(forward), lambda i: [lasting.x_of(i)], optimizer
    )
    assert_replayed(statistics, said)
    assert statistics.python_ops == 0
    assert (statistics.steps >= 5) == (optimizer is not None)
