"""What explain and profile show of calls with arrays of CuPy."""

import sdbr

import chainer
import chainer.functions as F
import chainer.links as L
from chainer import optimizers

from .programs import Way, assert_alike, normal, state, whole


def perceptron(self, x, t):
    h = F.cumsum(F.relu(self.layer(F.cumsum(x, axis=1))), axis=1)
    return F.softmax_cross_entropy(self.out(h), t)


def trained(way, n=6):
    model = way.model(perceptron, layer=lambda: L.Linear(3, 4), out=lambda: L.Linear(4, 2))
    optimizer = way.optimizer(optimizers.Adam(), model)
    for k in range(n):
        optimizer.update(model, normal(5, 3, seed=k), whole(2, 5, seed=k))
    return model, optimizer


def test_explain_says_where_and_why_graphs_are_cut():
    model, _ = trained(Way(True))
    report = sdbr.explain(model)
    (schedule,) = report.to_dict()["managers"][0]["schedules"]
    assert schedule["device"] == "@cupy:0"
    step = next(p for p in schedule["programs"] if p["name"] == "step")
    assert [graph["cut_by"] for graph in step["graphs"]] == ["Cumsum", "Cumsum backward", None]
    covered = sum(stop - start for start, stop in (graph["ops"] for graph in step["graphs"]))
    assert covered == step["native_ops"]
    kernels = sum(graph["kernels"] for graph in step["graphs"])
    # All of them are kernels of our own, each of which is a node.
    assert kernels == sum(graph["nodes"] for graph in step["graphs"])
    text = " ".join(str(report).split())
    assert f"3 graphs with {kernels} kernels, cut by Python ops: Cumsum, Cumsum backward" in text
    assert "launched as graph x 3" in text
    assert "other arrays in each run: " in text and len(step["moving"]) >= 2
    assert "Python op Cumsum x 2: op cumsum has no kernel there" in text


def test_profiles_show_kernels_and_change_nothing():
    want, _ = trained(Way(False), 9)
    model, optimizer = trained(Way(True))
    # An audit looks at ops itself.
    with chainer.using_config("sdbr_audit", "off"), sdbr.profile(model) as profile:
        for k in range(6, 9):
            optimizer.update(model, normal(5, 3, seed=k), whole(2, 5, seed=k))
    assert_alike(state(model), state(want))
    assert profile.runs == 3
    took = {row["op"]: row["seconds"] for row in reversed(profile.rows())}
    assert all(took[op] > 0 for op in ("python", "linear", "gemm", "softmax_cross_entropy", "adam"))
    assert model.schedule_manager.statistics.steps == 8
