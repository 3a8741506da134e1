"""Loss, accuracy, the seed of the backward and the gradient are one launch, where that can be."""

from unittest import mock

from sdbr.backends.cuda import riding
from sdbr.cli import demo
from sdbr.ops.table import OPS

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness import device
from tests.harness.comparison import assert_all_near, gradients_of, state_of
from tests.harness.models import Net, data, floats, labels
from tests.harness.steps import OPTIMIZERS, compare, train
from tests.tolerances import GRADIENTS, RESULTS, SUMS

LOSS, GRADIENT = "softmax_cross_entropy", "softmax_cross_entropy_grad"
ONE = [f"{LOSS} accuracy fill {GRADIENT}"]
NONE = [LOSS, "accuracy", "fill", GRADIENT]
BATCH = data(floats(20, 4), labels(3, 20))
WEIGHTS = np.array([0.5, 1, 2], "f")


def launched(step):
    """The ops of each launch that has to do with the loss, in order."""
    names = [OPS[int(opcode)].name for opcode in step.program.opcodes]
    of_units = [[names[i] for i in unit.ops] for of_part in step.units for unit in of_part]
    wanted = {"accuracy", "fill", *(name for name in names if "cross_entropy" in name)}
    return [" ".join(ops) for ops in of_units if not wanted.isdisjoint(ops)]


def kernels(step):
    return [x.kernel for of_part in step.units for unit in of_part for x in unit.launches]


def reported(link, y, t, loss=F.softmax_cross_entropy, accuracy=F.accuracy):
    made = loss(y, t)
    chainer.report({"loss": made, "accuracy": accuracy(y, t)}, link)
    return made


def net(loss=F.softmax_cross_entropy, accuracy=F.accuracy, classes=3, dtype="f"):
    def forward(self, x, t):
        return reported(self, self.l(x), t, loss, accuracy)

    def make():
        with chainer.using_config("dtype", np.dtype(dtype)):
            return Net(forward, l=L.Linear(4, classes))

    return make


def with_options(of=F.softmax_cross_entropy, **options):
    return lambda y, t: of(y, t, **options)


def accuracy_first(self, x, t):
    y = self.l(x)
    accuracy = F.accuracy(y, t)
    return reported(self, y, t, accuracy=lambda *args: accuracy)


def accuracy_of_another(self, x, t):
    """There is no op between the loss and the accuracy."""
    y = self.l(x)
    z = F.tanh(y[:, ::-1])
    return reported(self, y, t, accuracy=lambda y, t: F.accuracy(z, t))


def pixels(self, x, t):
    return reported(self, F.reshape(self.l(x), (5, 3, 2, 2)), t)


#: Network, batch.
FIT = {
    "plain": (net(), BATCH),
    "many rows": (net(), data(floats(1500, 4), labels(3, 1500))),
    "as many rows as a team counts": (net(), data(floats(4096, 4), labels(3, 4096))),
    "of as many rows as may be": (
        net(with_options(normalize=False)),
        data(floats(4097, 4), labels(3, 4097)),
    ),
    "many classes": (net(classes=2500), data(floats(5, 4), labels(2500, 5))),
    "more memory": (net(classes=5000), data(floats(5, 4), labels(5000, 5))),
    "rows that are too long to keep": (net(classes=13000), data(floats(2, 4), labels(13000, 2))),
    "double": (net(dtype="d"), lambda rng: (rng.randn(20, 4), rng.randint(0, 3, 20))),
    "labels of another type": (net(), data(floats(20, 4), labels(3, 20, dtype="i8"))),
    "ignored": (net(with_options(ignore_label=1)), BATCH),
    "ignored in both": (
        net(with_options(ignore_label=1), with_options(F.accuracy, ignore_label=1)),
        BATCH,
    ),
    "all ignored": (
        net(with_options(ignore_label=0), with_options(F.accuracy, ignore_label=0)),
        data(floats(20, 4), labels(1, 20)),
    ),
    "weights": (net(with_options(class_weight=WEIGHTS)), BATCH),
    "not normalized": (net(with_options(normalize=False)), BATCH),
    "pixels": (
        lambda: Net(pixels, l=L.Linear(4, 12)),
        data(floats(5, 4), labels(3, 5, 2, 2)),
    ),
}
#: Network, batch, launches.
APART = {
    "too many rows": (
        net(),
        data(floats(4097, 4), labels(3, 4097)),
        [f"{LOSS} accuracy fill", GRADIENT],
    ),
    "not reduced": (
        net(lambda y, t: F.sum(F.softmax_cross_entropy(y, t, reduce="no"))),
        BATCH,
        [f"{LOSS}_no_reduce", "accuracy", f"{LOSS}_no_reduce_grad"],
    ),
    "used twice": (
        net(lambda y, t: (lambda loss: loss * loss)(F.softmax_cross_entropy(y, t))),
        BATCH,
        [LOSS, "accuracy", GRADIENT],
    ),
    "two losses": (
        net(lambda y, t: F.softmax_cross_entropy(y, t) + F.softmax_cross_entropy(-y, t)),
        BATCH,
        [LOSS, LOSS, "accuracy", "fill", GRADIENT, GRADIENT],
    ),
    "accuracy of another array": (net(accuracy=lambda y, t: F.accuracy(-y, t)), BATCH, NONE),
    "accuracy of one that was there": (
        lambda: Net(accuracy_of_another, l=L.Linear(4, 3)),
        BATCH,
        NONE,
    ),
    "accuracy of other labels": (net(accuracy=lambda y, t: F.accuracy(y, 2 - t)), BATCH, NONE),
    "two accuracies": (
        net(accuracy=lambda y, t: F.accuracy(y, t) + F.accuracy(y, t, ignore_label=0)),
        BATCH,
        [f"{LOSS} accuracy", "accuracy", "fill", GRADIENT],
    ),
    "accuracy first": (
        lambda: Net(accuracy_first, l=L.Linear(4, 3)),
        BATCH,
        ["accuracy", f"{LOSS} fill {GRADIENT}"],
    ),
    "sigmoid": (
        net(F.sigmoid_cross_entropy, lambda y, t: F.binary_accuracy(y, t)),
        data(floats(20, 4), labels(2, 20, 3)),
        ["sigmoid_cross_entropy", "fill", "sigmoid_cross_entropy_grad"],
    ),
}


@pytest.mark.parametrize("rule", ["sgd", "adam"])
@pytest.mark.parametrize("chained", [False, True])
def test_the_digits(chained, rule):
    """The demo's network: one launch of all that has to do with the loss."""
    with device.simulated(chained) as made:
        compare(
            lambda: demo.build_model(64, 16, 10),
            data(floats(100, 64), labels(10, 100)),
            OPTIMIZERS[rule],
            backend=device.NAME,
            steps=5,
        )
    (step,) = made
    assert launched(step) == ONE
    assert sum("entropy" in name or "accuracy" in name for name in kernels(step)) == 1


@pytest.mark.parametrize("what", FIT)
def test_one_launch(what):
    make, batch = FIT[what]
    with device.simulated() as made:
        compare(make, batch, OPTIMIZERS["adam"], backend=device.NAME, steps=4)
    step = made[-1]
    assert launched(step) == ONE
    is_roomy = "cross_entropy_roomy_f4" in kernels(step)
    assert is_roomy == (what == "more memory")


@pytest.mark.parametrize("what", APART)
def test_several_launches(what):
    make, batch, want = APART[what]
    with device.simulated() as made:
        compare(
            make, batch, OPTIMIZERS["adam"], backend=device.NAME, steps=4, native=what != "sigmoid"
        )
    assert launched(made[-1]) == want


@pytest.mark.parametrize("chained", [False, True])
@pytest.mark.parametrize("what", FIT)
def test_no_bit_differs_from_several_launches(what, chained):
    make, batch = FIT[what]
    found = []
    for joint in (riding._Loss.launch, lambda self: None):
        with mock.patch.object(riding._Loss, "launch", joint), device.simulated(chained) as made:
            records, model, _ = train(
                make, batch, OPTIMIZERS["adam"], static=True, steps=4, backend=device.NAME
            )
        assert model.schedule_manager.statistics.replays == 3
        assert launched(made[-1]) == (NONE if found else ONE)
        found.append(records)
    one, several = found
    for got, want in zip(one, several, strict=True):
        for kind in ("state", "gradients", "reported", "rules"):
            assert got[kind].keys() == want[kind].keys()
            for key, array in got[kind].items():
                np.testing.assert_array_equal(array, want[kind][key], f"{kind}: {key}")


@pytest.mark.parametrize("chained", [False, True])
def test_the_scale_of_a_loss_is_its_seed(chained):
    def scaled(model):
        optimizer = OPTIMIZERS["sgd"](model)
        optimizer.set_loss_scale(64.0)
        return optimizer

    with device.simulated(chained) as made:
        compare(net(), BATCH, scaled, backend=device.NAME, steps=5)
    assert launched(made[-1]) == ONE


def of_a_parameter(rows):
    """Its gradient outlives the run."""

    def forward(self, x, t):
        loss = F.softmax_cross_entropy(self.l.W, t)
        chainer.report({"loss": loss}, self)
        return loss

    return lambda: Net(forward, l=L.Linear(4, rows, nobias=True))


def updated(model, optimizer, batch):
    """What an update reports and leaves."""
    reporter, found = chainer.Reporter(), {}
    reporter.add_observer("main", model)
    with reporter.scope(found):
        optimizer.update(model, *batch)
    reports = {name: np.array(y.array) for name, y in sorted(found.items())}
    return reports, state_of(model), gradients_of(model)


@pytest.mark.parametrize("chained", [False, True])
@pytest.mark.parametrize(("rows", "at"), [(8, 5), (300, 0), (300, 299)])
@pytest.mark.parametrize("what", ["classifier", "of a parameter"])
def test_labels_out_of_range(what, rows, at, chained):
    """Parameters and gradients stay, and the next run is right: its teams are counted anew."""
    make = net() if what == "classifier" else of_a_parameter(rows)
    batch = data(floats(rows, 4), labels(3, rows))
    wrong, right = batch(np.random.RandomState(1)), batch(np.random.RandomState(2))
    wrong[1][at] = 5
    _, *plain = train(make, batch, OPTIMIZERS["sgd"], static=False, steps=3)
    with device.simulated(chained) as made:
        settings = {"static": True, "backend": device.NAME, "steps": 3}
        _, model, optimizer = train(make, batch, OPTIMIZERS["sgd"], **settings)
        before = {**state_of(model), **gradients_of(model)}
        with pytest.raises(IndexError, match=f"index 5 at position {at} is out of range for"):
            optimizer.update(model, *wrong)
        assert_all_near({**state_of(model), **gradients_of(model)}, before, 0, "after a fault")
        found = updated(model, optimizer, right)
    for got, want, bound in zip(
        found, updated(*plain, right), (RESULTS, SUMS, GRADIENTS), strict=True
    ):
        assert_all_near(got, want, bound, "a step later")
    assert model.schedule_manager.statistics.replays == 3  # the one that failed is none
    assert launched(made[-1]) == (ONE if what == "classifier" else [f"{LOSS} fill", GRADIENT])
