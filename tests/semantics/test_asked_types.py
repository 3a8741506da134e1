"""Row 10: code that asks for the type of a number gets it, and the number is followed."""

from __future__ import annotations

import builtins
import textwrap

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F

from tests.tolerances import RESULTS

XS = [np.random.RandomState(i).randn(3, 4).astype("f") for i in range(5)]


class Holder(chainer.Chain):
    """With a number of its own, and one that each call sets."""

    def __init__(self, use):
        super().__init__()
        self.use, self.alpha, self.found = use, 0.5, None

    def forward(self, x):
        h = F.tanh(x) * self.alpha
        self.found = self.use(self, h)
        return h


def outcomes(use, static):
    model = Holder(use)
    if static:
        model = sdbr.static_graph(model)
    found = []
    for i, x in enumerate(XS):
        model.alpha = 0.5 + i
        found.append((model(x).array, model.found))
    return found, model


def compare(use):
    """The model, after its results have been those of define-by-run."""
    got, model = outcomes(use, True)
    want, _ = outcomes(use, False)
    for (y, found), (plain, right) in zip(got, want, strict=True):
        np.testing.assert_allclose(y, plain, rtol=RESULTS)
        assert type(found) is type(right)
        if isinstance(right, tuple):
            assert [type(x) for x in found] == [type(x) for x in right]
            assert [x for x in found if isinstance(x, (str, type))] == [
                x for x in right if isinstance(x, (str, type))
            ]
            found, right = found[-1], right[-1]
        assert found == pytest.approx(right, rel=RESULTS)
    return model


def name_of_class(model, h):
    return type(model).__name__, type(h.array).__name__, float(F.sum(h).array)


def of_a_class(model, h):
    number = float(F.sum(h).array)
    return type(h).__name__, number if isinstance(number, float) else None


def of_several_classes(model, h):
    number = float(F.sum(h).array)
    return type(h).__name__, number if isinstance(number, (int, float)) else None


def class_of_a_number(model, h):
    number = float(F.sum(h).array)
    return type(number).__name__, type(model.alpha).__name__, number


def made_again(model, h):
    return type(model).__name__, F.sum(h).array.item() * type(model.alpha)(2)


@pytest.mark.parametrize(
    "use", [name_of_class, of_a_class, of_several_classes, class_of_a_number, made_again]
)
def test_code_that_names_type_is_static(use):
    model = compare(use)
    statistics = model.schedule_manager.statistics
    assert (statistics.traces, statistics.replays) == (1, len(XS) - 1)


def same_class(model, h):
    kind = float
    number = float(F.sum(h).array)
    return number if type(number) is kind else None


def class_as_argument(model, h):
    number = float(F.sum(h).array)
    return number if is_class(type(number), float) else None


def is_class(a, b):
    return a is b


def class_of_another(model, h):
    number = float(F.sum(h).array)
    return number if type(number) is wanted() else None


def wanted():
    return float


def class_kept(model, h):
    number = float(F.sum(h).array)
    return {int: 0.0, float: number}[number.__class__]


def by_another_name(model, h):
    kind, asks = builtins.float, builtins.type
    number = kind(F.sum(h).array)
    return number if asks(number) is [float][0] else None


def spread(model, h):
    number = float(*[F.sum(h).array])
    return number if type(*(number,)) is float else None


def mapped(model, h):
    numbers = list(map(float, [F.sum(h).array, model.alpha]))
    return sum(numbers) if list(map(type, numbers)) == [float, float] else None


def classes_of_arrays(model, h):
    kinds = type(h.array), type(h.array[0, 0]), type(h.array.sum())
    return float(F.sum(h).array) if kinds == (np.ndarray, np.float32, np.float32) else None


def powers(model, h):
    number = float(F.sum(h).array)
    return number, pow(number, 2)


@pytest.mark.parametrize(
    "use",
    [
        same_class, class_as_argument, class_of_another, class_kept, by_another_name,
        spread, mapped, classes_of_arrays, powers,
    ],
)  # fmt: skip
def test_a_class_is_that_of_python_and_the_number_is_followed(use):
    statistics = compare(use).schedule_manager.statistics
    assert (statistics.traces, statistics.replays) == (1, len(XS) - 1)


def test_a_counter_has_the_class_of_python():
    def use(model, h):
        model.n = getattr(model, "n", 0) + 1
        assert type(model.n) is int and isinstance(model.n, int)
        return float(model.n)

    statistics = compare(use).schedule_manager.statistics
    assert statistics.replays >= len(XS) - 2 and statistics.define_by_run_calls == 0


SOURCES = {
    "hex": "float.fromhex(float.hex(number))",
    "of its class": "float(len(type(number).hex(number)))",
    "json": "json.loads(json.dumps([number]))[0]",
    "a text": "float('%r' % number)",
    "complex": "abs(number * 1j)",
}


@pytest.mark.parametrize("source", SOURCES)
def test_the_warning_says_where_a_number_left(source):
    code = f"""
        import json
        def use(model, h):
            number = float(F.sum(h).array)
            return {SOURCES[source]}
        """
    names = {"F": F, "__name__": __name__}
    exec(compile(textwrap.dedent(code), "user.py", "exec"), names)
    with pytest.warns(sdbr.SdbrWarning, match=r"left NumPy through float\(\) at user.py:5 in use"):
        compare(names["use"])
