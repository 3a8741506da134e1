"""The ways, each a function that sets one up and gives what makes its next step.

The network is that of `mlp_digits` (64-128-128-10, 64 rows, Adam), unless a way is about another.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import sdbr

import chainer
import numpy as np
from chainer import functions as F
from chainer import links as L
from chainer import optimizers

from benchmarks.ways.dcgan import Discriminator, Generator

ROWS = 64
RING = 16


class Net(chainer.Chain):
    """64-128-128-10."""

    def __init__(self, n_in: int = 64, n_out: int = 10) -> None:
        super().__init__()
        with self.init_scope():
            self.l1 = L.Linear(n_in, 128)
            self.l2 = L.Linear(128, 128)
            self.l3 = L.Linear(128, n_out)

    def forward(self, x: Any) -> chainer.Variable:
        """What the last layer gives."""
        return self.l3(F.relu(self.l2(F.relu(self.l1(x)))))


class Setting:
    """Makes models and optimizers static, or leaves them as they are; has batches."""

    def __init__(self, static: bool) -> None:
        self.is_static = static
        self.made: list[Any] = []
        np.random.seed(0)
        rng = np.random.RandomState(0)
        self.batches = itertools.cycle(
            [
                (rng.randn(ROWS, 64).astype("f"), rng.randint(0, 10, ROWS).astype("i"))
                for _ in range(RING)
            ]
        )

    def static(self, target: Any) -> Any:
        """A link or a function."""
        if self.is_static:
            target = sdbr.static_graph(target)
            self.made.append(target)
        return target

    def optimizer(self, target: chainer.Link, rule: Callable = optimizers.Adam) -> Any:
        """An optimizer of a link."""
        optimizer = sdbr.static_optimizer(rule()) if self.is_static else rule()
        return optimizer.setup(target)

    def classifier(self) -> tuple[Any, Any, Callable]:
        """A model, its optimizer, and what gives the next batch."""
        model = self.static(L.Classifier(Net()))
        return model, self.optimizer(model), lambda: next(self.batches)

    def counts(self) -> dict[str, int]:
        """How static calls were served, in all."""
        sums: dict[str, int] = {}
        for target in self.made:
            for name, n in target.schedule_manager.statistics.to_dict().items():
                sums[name] = sums.get(name, 0) + n
        return sums


class Way(NamedTuple):
    """One way.

    Attributes
    ----------
    set_up : callable
        ``set_up(setting)`` gives what makes one step.
    line : str
        What users write.
    peer : str
        The program of PyTorch that does the same; empty without one.
    against : tuple of str
        The ways whose times it is held against, added up.
    limit : float or None
        How many times as long it may take.
    """

    set_up: Callable[[Setting], Callable[[], Any]]
    line: str
    peer: str = "step"
    against: tuple[str, ...] = ("whole",)
    limit: float | None = 1.5


WAYS: dict[str, Way] = {}


def way(name: str, line: str, **options: Any) -> Callable:
    """Note a way."""

    def note(set_up: Callable) -> Callable:
        WAYS[name] = Way(set_up, line, **options)
        return set_up

    return note


@way("whole", "optimizer.update(model, x, t)", limit=None)
def whole(setting: Setting) -> Callable[[], Any]:
    """The whole step."""
    model, optimizer, batch = setting.classifier()
    return lambda: optimizer.update(model, *batch())


@way("lambda", "optimizer.update(lambda: model(x, t))")
def a_lambda(setting: Setting) -> Callable[[], Any]:
    """A new lambda each time."""
    model, optimizer, batch = setting.classifier()

    def step() -> None:
        x, t = batch()
        optimizer.update(lambda: model(x, t))

    return step


@way("function", "optimizer.update(compute_loss, x, t)")
def a_function(setting: Setting) -> Callable[[], Any]:
    """A function that calls the model."""
    model, optimizer, batch = setting.classifier()

    def compute_loss(x: Any, t: Any) -> chainer.Variable:
        return model(x, t)

    return lambda: optimizer.update(compute_loss, *batch())


def by_hand(
    clear: Callable = lambda model, optimizer: model.cleargrads(),
    backward: Callable = lambda loss, optimizer: loss.backward(),
    prepare: Callable = lambda optimizer: None,
) -> Callable[[Setting], Callable[[], Any]]:
    """The four lines."""

    def set_up(setting: Setting) -> Callable[[], Any]:
        model, optimizer, batch = setting.classifier()
        prepare(optimizer)

        def step() -> None:
            loss = model(*batch())
            clear(model, optimizer)
            backward(loss, optimizer)
            optimizer.update()

        return step

    return set_up


def cut(loss: chainer.Variable, optimizer: Any) -> None:
    """As in truncated backpropagation through time."""
    loss.backward()
    loss.unchain_backward()


way("by hand", "loss = model(x, t); model.cleargrads(); loss.backward(); optimizer.update()")(
    by_hand()
)
way("target.cleargrads", "the same with optimizer.target.cleargrads()")(
    by_hand(lambda model, optimizer: optimizer.target.cleargrads())
)
way("zerograds", "the same with model.zerograds()")(
    by_hand(lambda model, optimizer: model.zerograds())
)
way("retain_grad", "the same with loss.backward(retain_grad=True)")(
    by_hand(backward=lambda loss, optimizer: loss.backward(retain_grad=True))
)
way("loss_scale", "the same with loss.backward(loss_scale=128.)")(
    by_hand(
        backward=lambda loss, optimizer: loss.backward(loss_scale=optimizer._loss_scale),
        prepare=lambda optimizer: optimizer.set_loss_scale(128.0),
    )
)
way("unchain_backward", "the same, and loss.unchain_backward()")(by_hand(backward=cut))


@way(
    "two optimizers", "one backward, first.update(); second.update(), each of one half", peer="two"
)
def two_optimizers(setting: Setting) -> Callable[[], Any]:
    """Two halves of one model."""
    model = setting.static(L.Classifier(Net()))
    half = chainer.ChainList(model.predictor.l2, model.predictor.l3)
    first, second = setting.optimizer(model.predictor.l1), setting.optimizer(half)

    def step() -> None:
        loss = model(*next(setting.batches))
        first.target.cleargrads()
        second.target.cleargrads()
        loss.backward()
        first.update()
        second.update()

    return step


@way("loss outside", "loss = F.softmax_cross_entropy(net(x), t)")
def loss_outside(setting: Setting) -> Callable[[], Any]:
    """The net is static, its loss is not."""
    net = setting.static(Net())
    optimizer = setting.optimizer(net)

    def step() -> None:
        x, t = next(setting.batches)
        loss = F.softmax_cross_entropy(net(x), t)
        net.cleargrads()
        loss.backward()
        optimizer.update()

    return step


@way(
    "forward and backward",
    "model.cleargrads(); model(x, t).backward()",
    peer="gradients",
    limit=None,
)
def forward_and_backward(setting: Setting) -> Callable[[], Any]:
    """No update."""
    model, _, batch = setting.classifier()

    def step() -> None:
        model.cleargrads()
        model(*batch()).backward()

    return step


@way("update", "optimizer.update()", peer="update", limit=None)
def update(setting: Setting) -> Callable[[], Any]:
    """From gradients that are there."""
    model, optimizer, batch = setting.classifier()
    model(*batch()).backward()
    model.cleargrads()
    model(*batch()).backward()
    return lambda: optimizer.update()


@way(
    "accumulation",
    "model.cleargrads(); 4 x model(x, t).backward(); optimizer.update()",
    peer="accumulation",
    against=("forward and backward",) * 4 + ("update",),
    limit=1.15,
)
def accumulation(setting: Setting) -> Callable[[], Any]:
    """Four batches to an update."""
    model, optimizer, batch = setting.classifier()

    def step() -> None:
        model.cleargrads()
        for _ in range(4):
            model(*batch()).backward()
        optimizer.update()

    return step


class ActorCritic(chainer.Chain):
    """Two nets, and the loss of both."""

    def __init__(self) -> None:
        super().__init__()
        with self.init_scope():
            self.actor, self.critic = Net(n_out=10), Net(n_out=1)

    def forward(self, x: Any, t: Any) -> chainer.Variable:
        """The loss."""
        return loss_of_both(self.actor(x), self.critic(x), t)


def loss_of_both(logits: Any, value: Any, t: Any) -> chainer.Variable:
    """Of a policy and a value."""
    return F.softmax_cross_entropy(logits, t) + F.mean(value**2)


@way("actor and critic, whole", "optimizer.update(actor_critic, x, t)", peer="agent", limit=None)
def agent(setting: Setting) -> Callable[[], Any]:
    """All in one static call."""
    model = setting.static(ActorCritic())
    optimizer = setting.optimizer(model)
    return lambda: optimizer.update(model, *next(setting.batches))


@way(
    "actor and critic",
    "(actor_loss(x, t) + critic_loss(x)).backward(), two optimizers",
    peer="agent",
    against=("actor and critic, whole",),
)
def actor_and_critic(setting: Setting) -> Callable[[], Any]:
    """Two static losses, added, and two optimizers."""
    actor, critic = Net(), Net(n_out=1)

    class ActorLoss(chainer.Chain):
        def forward(self, x, t):
            return F.softmax_cross_entropy(self.net(x), t)

    class CriticLoss(chainer.Chain):
        def forward(self, x):
            return F.mean(self.net(x) ** 2)

    first = setting.static(ActorLoss(net=actor))
    second = setting.static(CriticLoss(net=critic))
    both = setting.optimizer(actor), setting.optimizer(critic)

    def step() -> None:
        x, t = next(setting.batches)
        loss = first(x, t) + second(x)
        actor.cleargrads()
        critic.cleargrads()
        loss.backward()
        for optimizer in both:
            optimizer.update()

    return step


@way(
    "actor and critic, loss outside",
    "two static nets, loss_of_both(actor(x), critic(x), t).backward(), two optimizers",
    peer="agent",
    against=("actor and critic, whole",),
    limit=None,
)
def actor_and_critic_outside(setting: Setting) -> Callable[[], Any]:
    """Two static nets."""
    actor, critic = setting.static(Net()), setting.static(Net(n_out=1))
    both = setting.optimizer(actor), setting.optimizer(critic)

    def step() -> None:
        x, t = next(setting.batches)
        loss = loss_of_both(actor(x), critic(x), t)
        actor.cleargrads()
        critic.cleargrads()
        loss.backward()
        for optimizer in both:
            optimizer.update()

    return step


def loss_dis(y_fake: Any, y_real: Any) -> chainer.Variable:
    """Of the discriminator, as in Chainer's DCGAN example."""
    n = len(y_fake)
    return F.sum(F.softplus(-y_real)) / n + F.sum(F.softplus(y_fake)) / n


def loss_gen(y_fake: Any) -> chainer.Variable:
    """Of the generator."""
    return F.sum(F.softplus(-y_fake)) / len(y_fake)


def adversaries(static_losses: bool) -> Callable[[Setting], Callable[[], Any]]:
    """The updater of Chainer's DCGAN example, on perceptrons."""

    def set_up(setting: Setting) -> Callable[[], Any]:
        gen, dis = setting.static(Net(n_out=64)), setting.static(Net(n_out=1))
        of_gen, of_dis = setting.optimizer(gen), setting.optimizer(dis)
        losses = loss_gen, loss_dis
        if static_losses:
            losses = setting.static(loss_gen), setting.static(loss_dis)
        z = np.random.RandomState(1).randn(ROWS, 64).astype("f")

        def step() -> None:
            x, _ = next(setting.batches)
            y_real = dis(x)
            y_fake = dis(gen(z))
            of_dis.update(losses[1], y_fake, y_real)
            of_gen.update(losses[0], y_fake)

        return step

    return set_up


@way(
    "DCGAN, convolutional",
    "the same on convolutional networks, with losses that report",
    peer="",
    limit=None,
    against=(),
)
def dcgan(setting: Setting) -> Callable[[], Any]:
    """16 images of 16 by 16 pixels."""
    gen, dis = setting.static(Generator()), setting.static(Discriminator())
    of_gen, of_dis = setting.optimizer(gen), setting.optimizer(dis)
    rng = np.random.RandomState(1)
    images, z = rng.rand(16, 3, 16, 16).astype("f"), rng.randn(16, 64).astype("f")

    def reported(loss: Callable, link: chainer.Link) -> Callable:
        def with_report(*args: Any) -> chainer.Variable:
            found = loss(*args)
            chainer.report({"loss": found}, link)
            return found

        return with_report

    losses = reported(loss_dis, dis), reported(loss_gen, gen)

    def step() -> None:
        y_real = dis(chainer.Variable(images) / 255.0)
        y_fake = dis(gen(chainer.Variable(z)))
        of_dis.update(losses[0], y_fake, y_real)
        of_gen.update(losses[1], y_fake)

    return step


way(
    "adversaries, static losses",
    "the same with sdbr.static_graph on loss_dis and loss_gen",
    peer="adversaries",
    limit=None,
    against=(),
)(adversaries(True))
way(
    "adversaries",
    "Chainer's DCGAN updater: of_dis.update(loss_dis, y_fake, y_real); of_gen.update(...)",
    peer="adversaries",
    limit=None,
    against=("adversaries, static losses",),
)(adversaries(False))
