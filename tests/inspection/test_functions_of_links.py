"""A decorated function that is given a link belongs to it, and is looked at by its own name."""

import copy
import gc

import sdbr

import chainer.functions as F
import chainer.links as L
import numpy as np
import pytest
from chainer import optimizers

X = np.ones((2, 3), "f")


def loss_function():
    @sdbr.static_graph
    def loss_of(model, x):
        return F.sum(model(x))

    return loss_of


def trained(loss_of, steps=3):
    model = L.Linear(3, 3)
    optimizer = sdbr.static_optimizer(optimizers.SGD(1e-3)).setup(model)
    for _ in range(steps):
        optimizer.update(loss_of, model, X)
    return model, optimizer


def test_reports_and_pictures(tmp_path):
    loss_of = loss_function()
    assert "not traced yet" in str(sdbr.explain(loss_of))
    model, optimizer = trained(loss_of)
    (manager,) = sdbr.explain(loss_of).to_dict()["managers"]
    assert manager["name"] == "Linear.loss_of" and manager["statistics"]["steps"] == 2
    with sdbr.profile(loss_of) as times:
        optimizer.update(loss_of, model, X)
    assert times.runs == 1
    sdbr.draw(loss_of, tmp_path / "x.svg", program="step")


def test_calls():
    """Of several links that of the call; arguments are those of the call."""
    loss_of = loss_function()
    first, second = (trained(loss_of)[0] for _ in range(2))
    want = loss_of(second, X).array
    d = sdbr.debug(loss_of, second, X)
    np.testing.assert_array_equal(d.buffer("/W"), second.W.array)
    d.run()
    np.testing.assert_allclose(d.results()[0], want)
    assert sdbr.compare_backends(loss_of, first, X).differs is None
    assert len(sdbr.explain(loss_of).to_dict()["managers"]) == 2
    with pytest.raises(ValueError, match="model: no static call was made"):
        sdbr.debug(loss_of, copy.deepcopy(first), X)


def test_a_link_that_is_gone_is_none_of_them():
    loss_of = loss_function()
    kept = trained(loss_of)
    trained(loss_of)
    gc.collect()
    assert len(sdbr.explain(loss_of).to_dict()["managers"]) == 1
    del kept
    gc.collect()
    assert sdbr.explain(loss_of).to_dict()["managers"] == []


def test_a_function_of_links_and_of_arrays():
    @sdbr.static_graph
    def double(thing, x=None):
        return (thing(x) if x is not None else thing) * 2

    link = L.Linear(3, 3)
    for _ in range(3):
        double(X)
        double(link, X)
    assert len(sdbr.explain(double).to_dict()["managers"]) == 2
    assert sdbr.debug(double, X).program is not sdbr.debug(double, link, X).program
