"""Row 8: what a call writes to the class of its link is found in the user's class."""

from __future__ import annotations

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.tolerances import RESULTS


class Net(chainer.Chain):
    calls = 0
    last = None

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l = L.Linear(4, 3, initialW=0.5)

    def forward(self, x):
        return self.l(x)


def counting(self, x):
    type(self).calls += 1
    return self.l(x)


def counting_by_attribute(self, x):
    self.__class__.calls = self.__class__.calls + 2
    return self.l(x)


def tick(cls):
    cls.calls += 1
    return cls.calls


def counting_in_a_class_method(self, x):
    return self.l(x) * self.tick()


def keeping(self, x):
    type(self).last = F.sum(self.l(x))
    return self.l(x)


def run(forward, wrap):
    """What 8 calls of two models give, and what stands in the class then and in the one above."""
    above = type("Above", (Net,), {"forward": forward, "tick": classmethod(tick)})
    of_both = type("Model", (above,), {})
    models = [wrap(of_both()), wrap(of_both())]
    seen = []
    for i in range(8):
        y = models[i % 2](np.full((2, 4), i, "f"))
        last = of_both.last
        seen.append([*y.array.ravel(), of_both.calls, 0 if last is None else float(last.array)])
    return seen, vars(of_both).keys(), vars(above).keys(), models[0].schedule_manager


@pytest.mark.filterwarnings("ignore::sdbr.SdbrWarning")
@pytest.mark.parametrize(
    "forward",
    [
        counting,
        counting_by_attribute,
        counting_in_a_class_method,
        keeping,
    ],
)
def test_what_is_written_to_the_class_of_self(forward, monkeypatch):
    got, *names, manager = run(forward, sdbr.static_graph)
    monkeypatch.setattr(Net, "schedule_manager", None, raising=False)
    want, *own, _ = run(forward, lambda model: model)
    np.testing.assert_allclose(got, want, RESULTS)
    assert names == own
    assert manager.statistics.replays > 1


def test_a_class_that_has_written_to_itself_can_be_cleared_and_copied():
    model = sdbr.static_graph(Net())
    type(model).extra = 5
    assert Net.extra == 5 and isinstance(model, Net)
    del type(model).extra
    assert not hasattr(Net, "extra")
    with pytest.raises(AttributeError):
        del type(model).extra
    type(model.copy()).extra = 6
    assert Net.extra == 6
    del Net.extra


@pytest.mark.filterwarnings("ignore::sdbr.SdbrWarning")
def test_classes_that_a_call_has_made_are_the_users():
    """Their metaclass gives them the name of its own module, that of a library."""

    def scaled(self, x):
        return self.l(x) * self.scale

    made = type("Made", (Net,), {"forward": scaled, "scale": 1.0})
    assert made.__module__ == "abc"
    model = sdbr.static_graph(made())
    x = np.ones((2, 4), "f")
    for made.scale in (1.0, 1.0, 3.0, 3.0):
        np.testing.assert_allclose(model(x).array, 2 * made.scale, RESULTS)
    assert model.schedule_manager.statistics.replays == 2
