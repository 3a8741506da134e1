"""Ops carry the path of the link that they come from, slots that of their parameter."""

import contextlib

import sdbr

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np
import pytest
from chainer.links.model.vision import resnet

from .networks import Net, batch, trained, triple


class Block(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.conv1 = L.Convolution2D(4, 4, 3, pad=1)
            self.conv2 = L.Convolution2D(4, 4, 3, pad=1)
            self.bn = L.BatchNormalization(4)

    def forward(self, x):
        return F.relu(self.bn(self.conv2(F.sigmoid(self.conv1(x))))) + x


class Nested(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.a = Block()
            self.rest = chainer.ChainList(Block(), Block())

    def forward(self, x):
        h = self.a(x)
        for block in self.rest:
            h = block(h)
        return F.tanh(h)


class Old(chainer.Chain):
    """Of the time when links had a ``__call__`` of their own."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l = L.Linear(3, 8)

    def __call__(self, x):
        return F.linear(x, self.l.W, self.l.b)


def images():
    return np.random.RandomState(0).randn(2, 4, 6, 6).astype("f")


def replayed(model, *args, times=3):
    for _ in range(times):
        model(*args)
    assert model.schedule_manager.statistics.replays == times - 1
    return model.schedule_manager.static_schedule.programs


def links_of(program, op):
    names = [line.split()[1] for line in program.disassemble().splitlines()]
    return [link for name, link in zip(names, program.links, strict=True) if name == op]


@pytest.mark.parametrize("backend", ["cython", "numpy"])
def test_links_below_links(backend):
    model = sdbr.static_graph(Nested(), backend=backend)
    programs = replayed(model, images())
    forward = programs["forward"]
    blocks = ["/a", "/rest/0", "/rest/1"]
    convolutions = [f"{block}/{name}" for block in blocks for name in ("conv1", "conv2")]
    assert links_of(forward, "convolution") == convolutions
    assert links_of(forward, "sigmoid") == blocks
    assert links_of(forward, "tanh") == ["/"]
    (backward,) = programs["backward"]
    assert links_of(backward, "convolution_grad_w") == convolutions[::-1]
    assert set(links_of(backward, "sigmoid_grad")) == set(blocks)
    text = forward.disassemble()
    for path in convolutions:
        assert f"({path}/W):float32[4,4,1,3,3]" in text
        assert f"Convolution2DFunction {path} at " in text
    for path in ("/a/bn/avg_mean", "/rest/1/bn/avg_var", "parameter /rest/0/conv2/b"):
        assert path in forward.memory_plan()


def test_the_link_is_that_of_the_call_again_after_an_error():
    class Tries(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.l = L.Linear(3, 4)

        def forward(self, x):
            with contextlib.suppress(chainer.utils.type_check.InvalidType):
                self.l(x[:, :2])
            return F.sigmoid(self.l(x))

    model = sdbr.static_graph(Tries())
    with pytest.warns(sdbr.SdbrWarning):
        model(batch()[0])
    (schedule,) = model.schedule_manager.schedules.values()
    assert schedule[0].trace.nodes[-1].link is model


def test_whole_steps_and_updates():
    model, _ = trained()
    (plan,) = model.schedule_manager.static_schedule.step_plans.values()
    program = plan.program
    assert sorted(links_of(program, "adam")) == ["/predictor/l1"] * 2 + ["/predictor/l2"] * 2
    assert links_of(program, "linear") == ["/predictor/l1", "/predictor/l2"]
    names = {slot.name for slot in program.slots}
    assert {"parameter /predictor/l1/W", "/predictor/l1/W.m"} <= names


def test_functions_and_links_around_them():
    net = Net()

    @sdbr.static_graph
    def function(x):
        return net(x) * 2

    programs = replayed(function, batch()[0])
    assert links_of(programs["forward"], "linear") == ["net/l1", "net/l2"]
    assert programs["forward"].links[-1] == ""
    assert "(net/l1/W):float32[8,3]" in programs["forward"].disassemble()


def test_links_with_a_call_of_their_own_and_forward_by_hand():
    class Both(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.old = Old()
                self.new = L.Linear(8, 8)

        def forward(self, x):
            return self.new.forward(self.old(x))

    programs = replayed(sdbr.static_graph(Both()), batch()[0])
    assert links_of(programs["forward"], "linear") == ["/old/l", "/new"]


def test_a_link_in_two_places_has_its_first_name():
    class Tied(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.a = L.Linear(3, 3)
                self.b = self.a

        def forward(self, x):
            return self.b(self.a(x))

    programs = replayed(sdbr.static_graph(Tied()), batch()[0])
    assert links_of(programs["forward"], "linear") == ["/a", "/a"]


def test_errors_name_link_and_parameter():
    model, optimizer = trained()
    x, t = batch()
    with pytest.raises(IndexError) as caught:
        optimizer.update(model, x, t + 7)
    assert "SoftmaxCrossEntropy / at " in str(caught.value)
    net = sdbr.static_graph(L.EmbedID(3, 2))
    ids = np.arange(3, dtype="i")
    for _ in range(3):
        net(ids)
    with pytest.raises(IndexError) as caught:
        net(ids + 1)
    assert "(/W):float32[1,3,2]" in str(caught.value)


def test_explain_and_profile_show_links():
    model, optimizer = trained(between=lambda h: triple(triple(h)))
    report = sdbr.explain(model)
    (schedule,) = report.to_dict()["managers"][0]["schedules"]
    assert [node["link"] for node in schedule["python_nodes"]] == ["/predictor"] * 2
    assert " in /predictor and others" in str(report)
    with sdbr.profile(model) as p:
        optimizer.update(model, *batch())
    links = {row["link"] for row in p.rows()}
    assert links >= {"/predictor/l1", "/predictor/l2", "/predictor", "/"}
    assert "Triple backward /predictor at " in str(p)


def test_no_two_convolutions_of_a_resnet_print_alike():
    net = resnet.ResNet50Layers(pretrained_model=None)

    class Whole(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.net = net

        def forward(self, x):
            return self.net(x, layers=["pool5"])["pool5"]

    model = sdbr.static_graph(Whole())
    x = np.random.RandomState(0).randn(1, 3, 64, 64).astype("f")
    with chainer.using_config("train", False), chainer.no_backprop_mode():
        model(x)
        model(x)
    assert model.schedule_manager.statistics.replays == 1
    program = model.schedule_manager.static_schedule.programs["forward"]
    found = [
        line.partition(";")[2]
        for line in program.disassemble().splitlines()
        if "Convolution2DFunction" in line
    ]
    assert len(found) == 53
    assert len(set(found)) == 53
    assert any("/net/res2/a/conv1" in line for line in found)
