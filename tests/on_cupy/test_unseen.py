"""What computes with arrays of CuPy where nobody tells: kernels, functions by name, other objects.

What is right in the first calls has to be right in all, whether one is audited or not: in the
fourth call an element is large, which no trace has seen.
"""

import functools
import tempfile
import time
import types

import sdbr
from sdbr.trace.code.frames import user_line

import chainer.functions as F
import cupy
import numpy as np
import pytest
from chainer.backends import cuda
from cupy import concatenate as joined
from cupy import sum as total

from tests.conftest import ON

from .programs import Way, assert_alike, normal, seen

CALLS = 6
LARGE = cupy.ElementwiseKernel("T x", "T y", "y = x > 5 ? 1 : 0", "large")
CUT = cupy.ElementwiseKernel("T x", "T y", "y = x > 5 ? 5 : y", "cut")
COUNT = cupy.ReductionKernel("T x", "T y", "x > 5 ? 1 : 0", "a + b", "y = a", "0", "count")
BY_KEY = {"joined": joined}
partial = functools.partial(joined, axis=0)


def inputs():
    found = [normal(4, 3, seed=k) for k in range(CALLS)]
    found[3][0, 0] = 10
    return found


def of_chainer(x):
    kernel = cuda.elementwise("T x", "T y", "y = x > 5 ? 1 : 0", "large_too")
    return F.relu(x) + kernel(x)


def reduction_of_chainer(x):
    return x * cuda.reduce("T x", "T y", "x > 5 ? 1 : 0", "a + b", "y = a", "0", "count_too")(x)


STATIC = {
    "kernel": lambda x: F.relu(x) + LARGE(x),
    "kernel of a result": lambda x: LARGE(F.relu(x).array),
    "kernel of Chainer's": of_chainer,
    "reduction": lambda x: x * COUNT(x),
    "reduction along an axis": lambda x: COUNT(x, axis=0) + 1,
    "reduction that leaves": lambda x: F.relu(x) * float(COUNT(x)),
    "reduction that decides": lambda x: x * 2 if COUNT(x) > 0 else x,
    "reduction of Chainer's": reduction_of_chainer,
    "function by name": lambda x: F.relu(x) * total(x > 5),
    "function by name that leaves": lambda x: F.relu(x) * float(joined([x, x]).max() > 5),
    "method of a ufunc": lambda x: F.relu(x) + cupy.add.reduce((x > 5).astype("f")),
}


def cut_in_place(x):
    y = F.relu(x).array
    CUT(x, y)
    return F.relu(y)


def cut_from_nothing(x):
    y = cupy.zeros((4, 3), "f")
    CUT(x, y)
    return x + y


def added_from_nothing(x):
    y = cupy.zeros((4, 3), "f")
    cupy.add(x > 5, y, y)
    return F.relu(x) + y


def added_at(x):
    y = cupy.zeros(4, "f")
    cupy.add.at(y, cupy.array([0, 1]), (x[:2] > 5).astype("f").sum(1))
    return F.relu(x)[:, 0] + y


def cut_by_function(x):
    y = x * 1
    cupy.clip(y, -5, 5, y)
    return y * 2


def number_from_nothing(x):
    y = cupy.zeros(3, "f")
    y[0] = float((x > 5).any())
    return F.relu(x) + y


WRITING = [
    cut_in_place, cut_from_nothing, added_from_nothing, added_at, cut_by_function,
    number_from_nothing,
]  # fmt: skip
STATIC.update((function.__name__, function) for function in WRITING)
STATIC["joined by an item"] = lambda x: F.relu(x) + BY_KEY["joined"]([x > 5])
STATIC["joined by a partial"] = lambda x: F.relu(x) + partial([x > 5])

DYNAMIC = {
    lambda x: F.relu(x) * len(repr(x)): "a text was made of an array",
}


def test_lines_are_the_users_and_not_those_of_cupy():
    names = {"__name__": "cupy._manipulation.join", "line": user_line}
    exec("def concatenate(): return line()", names)
    assert "test_unseen.py" in names["concatenate"]()


@pytest.mark.parametrize("name", STATIC)
def test_static(name):
    function = STATIC[name]
    static = sdbr.static_graph(lambda x: function(x))
    assert_alike([seen(static(x)) for x in inputs()], [seen(function(x)) for x in inputs()])
    assert static.schedule_manager.statistics.replays >= CALLS - 2
    assert static.schedule_manager.statistics.define_by_run_calls == 0


def test_a_kernel_that_is_compiled_in_the_traced_call(tmp_path, monkeypatch):
    """CuPy writes it to a file whose name is drawn."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    kernel = cupy.ElementwiseKernel("T x", "T y", f"y = x + {time.time_ns() % 1000}", "new_one")
    static = sdbr.static_graph(lambda x: F.relu(kernel(x)))
    for x in inputs():
        static(x)
    assert static.schedule_manager.statistics.replays == CALLS - 1
    assert ON == "gpu" or any(path.suffix == ".so" for path in tmp_path.rglob("*"))


@pytest.mark.parametrize("make", [tempfile.mkdtemp, tempfile.mktemp])
def test_temporary_files_of_the_users(make, tmp_path):
    """The name is another one each time, and the file is there in the traced call alone."""
    static = sdbr.static_graph(lambda x: (F.relu(x), make(dir=tmp_path))[0])
    with pytest.warns(sdbr.SdbrWarning, match="not static"):
        for x in inputs():
            static(x)
    assert static.schedule_manager.statistics.replays == 0


@pytest.mark.parametrize("function", DYNAMIC, ids=lambda function: function.__name__)
def test_dynamic(function):
    static = sdbr.static_graph(lambda x: function(x))
    with pytest.warns(sdbr.SdbrWarning, match=DYNAMIC[function]):
        got = [seen(static(x)) for x in inputs()]
    assert_alike(got, [seen(function(x)) for x in inputs()])


def filled(x):
    y = cupy.zeros(3, "f")
    y[0] = 1
    y[1:] *= 3
    y += 0.5
    z = cupy.empty(3, "f")
    z.fill(2)
    return F.relu(x) * y + z


def test_what_is_made_from_nothing_may_be_filled():
    static = sdbr.static_graph(lambda x: filled(x))
    assert_alike([seen(static(x)) for x in inputs()], [seen(filled(x)) for x in inputs()])
    assert static.schedule_manager.statistics.replays >= CALLS - 2
    assert static.schedule_manager.statistics.define_by_run_calls == 0


class Holder:
    def __init__(self):
        self.array = normal(3, seed=11)
        self.list = [normal(3, seed=12)]


READ = {
    "bound": lambda held: held.array,
    "computed with": lambda held: cupy.exp(held.array),
    "given to a kernel": lambda held: LARGE(held.array * 4) + 1,
    "a number": lambda held: float(held.array.sum()),
    "a whole number": lambda held: int(held.array[0] * 10),
    "a list": lambda held: held.array.tolist()[1],
    "copied": lambda held: cupy.asarray(held.array.get()),
    "deciding": lambda held: 2 if held.array.sum() > 0 else 3,
    "in a list": lambda held: float(held.list[0].sum()),
}


@pytest.mark.filterwarnings("ignore::sdbr.SdbrWarning")
@pytest.mark.parametrize("name", READ)
def test_arrays_of_other_objects_are_read_anew(name):
    read, found = READ[name], []
    for way in (Way(False), Way(True)):
        held, of_way = Holder(), []
        call = way(lambda x, held=held: F.relu(x) * read(held))
        for k in range(10):
            if k in (3, 7):
                held.array *= -2
                held.list[0] *= -2
            if k == 5:
                held.array, held.list[0] = normal(3, seed=13), normal(3, seed=14)
            of_way.append(seen(call(normal(4, 3, seed=k))))
        found.append(of_way)
    assert_alike(*found)


WEIGHTS = np.ones(3, "f")


@pytest.mark.parametrize("kind", ["global", "object"])
def test_arrays_of_the_host_are_not_kept(kind):
    held = types.SimpleNamespace(weights=np.ones(3, "f"))
    if kind == "global":
        call = sdbr.static_graph(lambda x: F.relu(x) * cupy.asarray(WEIGHTS))
    else:
        call = sdbr.static_graph(lambda x: F.relu(x) * cupy.asarray(held.weights))
    weights = WEIGHTS if kind == "global" else held.weights
    for k in range(6):
        weights[...] = k
        x = normal(4, 3, seed=k)
        assert_alike(seen(call(x)), seen(F.relu(x) * float(k)))
    assert call.schedule_manager.statistics.replays == 5
