"""Graphs of programs: what depends on what, folded by link, as SVG and DOT."""

import re
import xml.etree.ElementTree as ET

import sdbr
from sdbr.inspection.graph import folded, graph_of
from sdbr.inspection.layout import HEIGHT, Layout

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np
import pytest

from .networks import Net, batch, trained, triple

EVIL = '<script>"\\'


class Branches(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.a = L.Linear(3, 3)
            self.b = L.Linear(3, 3)
            self.c = L.Linear(6, 3)

    def forward(self, x):
        h = F.cumsum(x, axis=1)
        return F.logsumexp(self.c(F.concat([F.cumsum(self.a(h), axis=1), self.b(h)])), axis=1)


def static(chain, x=None):
    model = sdbr.static_graph(chain)
    x = batch()[0] if x is None else x
    with chainer.no_backprop_mode():
        for _ in range(3):
            model(x)
    assert model.schedule_manager.statistics.replays == 2
    return model


def forward(model):
    return model.schedule_manager.static_schedule.programs["forward"]


def test_paths_are_folded():
    assert folded("/res2/a/conv1", 1) == "/res2"
    assert folded("/res2/a/conv1", 2) == "/res2/a"
    assert folded("/res2/a/conv1", None) == "/res2/a/conv1"
    assert folded("/", 1) == "/" and folded("net/a", 1) == "net" and folded("", 2) == ""


def test_boxes_and_what_they_read():
    program = forward(static(Branches()))
    boxes, edges = graph_of(program)
    titles = [box.title for box in boxes]
    assert sorted(i for box in boxes for i in box.ops) == list(range(len(program)))
    pairs = {(titles[a], titles[b]) for a, b in edges}
    assert ("argument 0", "/") in pairs and ("/", "/a") in pairs and ("/", "/b") in pairs
    assert ("/c", "/") in pairs and ("argument 0", "/a") not in pairs
    assert any(b.startswith("output") and a == "/" for a, b in pairs)
    assert all(a < b for a, b in edges)
    assert "float32[4,3]" in boxes[titles.index("/a")].shape


def test_every_argument_of_a_box_is_before_it():
    """One that an op reads late in a box comes before the box all the same."""

    def function(x, y):
        return F.cumsum(F.cumsum(x, axis=1) * y, axis=0)

    model = sdbr.static_graph(function)
    x = batch()[0]
    for _ in range(3):
        model(x, x + 1)
    boxes, edges = graph_of(forward(model))
    assert [box.title for box in boxes][:2] == ["argument 0", "argument 1"]
    assert all(a < b for a, b in edges) and {a for a, b in edges if b == 2} == {0, 1}


def test_layers_do_not_overlap_and_lines_go_down():
    rng = np.random.RandomState(0)
    edges = sorted({tuple(sorted(rng.choice(30, 2, replace=False))) for _ in range(60)})
    widths = rng.uniform(20, 200, 30).tolist()
    layout = Layout(widths, edges)
    for a, b in edges:
        assert layout.y[b] >= layout.y[a] + HEIGHT
    for a in range(30):
        assert layout.x[a] - widths[a] / 2 >= 0 and layout.x[a] + widths[a] / 2 <= layout.width
        for b in range(a):
            apart = abs(layout.x[a] - layout.x[b]) >= (widths[a] + widths[b]) / 2
            assert apart or layout.y[a] != layout.y[b]
    for points in layout.lines:
        ys = [y for _, y in points]
        assert ys == sorted(ys) and len(set(ys)) == len(ys)


def test_the_order_avoids_crossings():
    layout = Layout([10.0] * 4, [(0, 3), (1, 2)])  # crossed as they come
    (left, _), (right, _) = layout.lines[0][0], layout.lines[1][0]
    (to_left, _), (to_right, _) = layout.lines[0][-1], layout.lines[1][-1]
    assert (left < right) == (to_left < to_right)


@pytest.mark.parametrize("name", ["forward", "backward", "step"])
def test_svg_of_a_model_and_of_its_schedule(tmp_path, name):
    model, optimizer = trained(between=triple)
    loss = model(*batch())
    loss.backward()
    schedule = model.schedule_manager.static_schedule
    texts = []
    for thing in (model, schedule, optimizer):
        sdbr.draw(thing, tmp_path / "graph.svg", program=name)
        texts.append((tmp_path / "graph.svg").read_text(encoding="utf-8"))
    assert texts[0] == texts[1] == texts[2]
    root = ET.fromstring(texts[0])
    shown = " ".join(root.itertext())
    assert "/predictor/l1" in shown and "Triple" in shown
    assert "#fed7aa" in texts[0]  # the Python op


def test_names_are_escaped(tmp_path):
    class Evil(chainer.Chain):
        def __init__(self):
            super().__init__()
            self.add_link(EVIL, L.Linear(3, 2))

        def forward(self, x):
            return getattr(self, EVIL)(x)

    model = static(Evil())
    sdbr.draw(model, tmp_path / "x.svg")
    text = (tmp_path / "x.svg").read_text(encoding="utf-8")
    assert "<script" not in text and f"/{EVIL}" in " ".join(ET.fromstring(text).itertext())
    sdbr.draw(model, str(tmp_path / "x.DOT"))
    text = (tmp_path / "x.DOT").read_text(encoding="utf-8")
    assert 'label="/<script>\\"\\\\\\n' in text


def test_dot(tmp_path):
    sdbr.draw(static(Branches()), tmp_path / "x.dot", depth=0)
    text = (tmp_path / "x.dot").read_text(encoding="utf-8")
    assert text.startswith("digraph") and text.endswith("}\n")
    assert len(re.findall(r"^  n\d+ \[", text, re.M)) == 3  # argument, everything, result
    assert re.findall(r"n(\d) -> n(\d)", text) == [("0", "1"), ("1", "2")]


def test_what_cannot_be_drawn(tmp_path):
    net = sdbr.static_graph(Net())
    path = tmp_path / "x.svg"
    with pytest.raises(ValueError, match="there is none yet"):
        sdbr.draw(net, path)
    with pytest.raises(TypeError, match="obj: expected a link"):
        sdbr.draw(3, path)
    model = static(Net())
    with pytest.raises(ValueError, match=r"program: expected one of 'forward'.* got 'step'"):
        sdbr.draw(model, path, program="step")
    assert not path.exists()
    sdbr.draw(forward(model), path)
    assert path.exists()
