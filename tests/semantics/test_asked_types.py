"""Row 10: code that asks for the type of a number gets it, and the number is followed."""

from __future__ import annotations

import sys
import textwrap

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F

from tests.tolerances import RESULTS

XS = [np.random.RandomState(i).randn(3, 4).astype("f") for i in range(5)]

called_by_class = pytest.mark.skipif(
    sys.version_info < (3, 11), reason="before, byte code does not show what is read to be called"
)


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


@called_by_class
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


def class_shown(model, h):
    return type(float(F.sum(h).array)), [float][0], float(F.sum(h).array)


@pytest.mark.parametrize("use", [same_class, class_as_argument, class_of_another, class_shown])
def test_a_class_that_may_be_compared_is_that_of_python(use):
    with pytest.warns(sdbr.SdbrWarning, match=r"hands on the class 'float' at .*asks for types"):
        model = compare(use)
    assert "hands on the class 'float'" in str(sdbr.explain(model))


SOURCES = {
    "tells the class 'float' by identity": """
        def use(model, h):
            number = float(F.sum(h).array)
            return number if number.__class__ is float else None
        """,
    "because of 'type' at .* in use": """
        from builtins import type
        def use(model, h):
            number = float(F.sum(h).array)
            return number if type(number) == float else None
        """,
    "because of float.hex at .* in use": """
        def use(model, h):
            return float.fromhex(float.hex(float(F.sum(h).array)))
        """,
    "because of the attribute 'hex'": """
        def use(model, h):
            number = float(F.sum(h).array)
            return number if type(number).hex(number) else None
        """,
    "because of 'json'": """
        import json
        def use(model, h):
            return json.loads(json.dumps(float(F.sum(h).array)))
        """,
    "because of a text and the operator %": """
        def use(model, h):
            return float("%r" % float(F.sum(h).array))
        """,
    "because of 'compile' at .* in use": """
        def use(model, h):
            number = float(F.sum(h).array)
            return number if chainer is not None or compile("1", "", "eval") else None
        """,
}


@pytest.mark.parametrize("reason", SOURCES)
def test_the_warning_says_why_a_number_is_not_followed(reason):
    names = {"F": F, "chainer": chainer, "__name__": __name__}
    exec(textwrap.dedent(SOURCES[reason]), names)
    with pytest.warns(sdbr.SdbrWarning, match=reason):
        compare(names["use"])
