"""Chainer: define-by-run, under its own static_graph, and under sdbr with a given backend.

The networks are written once, as ordinary Chainer, for arrays of NumPy and of CuPy. The style only
decides which decorator goes around them: nothing, ``chainer.static_graph`` on the network (its
documented use: the loss stays outside), or ``sdbr.static_graph`` on the whole loss together with
``sdbr.static_optimizer``.
"""

from __future__ import annotations

from itertools import cycle, islice
from typing import Any

import sdbr

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np
from chainer.backends import cuda

from benchmarks.cases import deep_chain
from benchmarks.cases.base import Case, Layers, Weights
from benchmarks.peers import chainer_networks
from benchmarks.peers.base import LeftOut, Runner

PLAIN, CHAINER_STATIC, SDBR = "plain", "chainer.static_graph", "sdbr"
GPU = "@cupy:0"


def make(case: Case, style: str, device: str = "cpu") -> Runner:
    """Return the runner of a case in style 'plain', 'chainer.static_graph' or 'sdbr:BACKEND'.

    Behind the backend may stand how: 'own' (no oneDNN), 'uncaptured' (no graphs of CUDA).
    """
    style, _, backend = style.partition(":")
    backend, _, how = backend.partition(":")
    if device == "cuda":
        _use_gpu(case)
    if case.network != "perceptron" and backend == "numpy":
        raise LeftOut("the reference backend is measured on perceptrons")
    if backend:
        chainer.global_config.sdbr_backend = backend
    if how == "own":
        _use_own_kernels(case)
    if how == "uncaptured":
        chainer.global_config.sdbr_launch = "kernels"
    if device == "cuda":
        return {"train": Train, "chain": Train, "infer": Infer}[case.kind](case, style, device)
    if case.kind == "trainer":
        from benchmarks.peers.chainer_trainer import Trained as runner
    elif case.kind == "dqn":
        from benchmarks.peers.chainer_dqn import Dqn as runner
    else:
        runner = {"train": Train, "chain": Train, "infer": Infer}[case.kind]
    return runner(case, style)


def _use_gpu(case: Case) -> None:
    if case.kind not in ("train", "chain", "infer"):
        raise LeftOut("its environment and its data lie on the host")
    if not cuda.available:
        raise LeftOut(f"no CuPy with a GPU: {cuda._resolution_error}")
    chainer.get_device(GPU).use()


def _use_own_kernels(case: Case) -> None:
    if case.network == "perceptron":
        raise LeftOut("there is nothing here that oneDNN would do")
    chainer.global_config.sdbr_onednn = "off"


class Perceptron(chainer.Chain):
    """Linear layers with ReLU between them."""

    def __init__(self, layers: Layers):
        super().__init__()
        with self.init_scope():
            self.layers = linear_list(layers)

    def forward(self, x):
        *hidden, last = self.layers
        for layer in hidden:
            x = F.relu(layer(x))
        return last(x)


class CrossEntropy(chainer.Chain):
    """The loss over a network."""

    def __init__(self, predictor: chainer.Chain):
        super().__init__()
        with self.init_scope():
            self.predictor = predictor

    def forward(self, x, t):
        return F.softmax_cross_entropy(self.predictor(x), t)


class DeepChain(chainer.Chain):
    """ReLU after every layer."""

    def __init__(self, layers: Layers):
        super().__init__()
        with self.init_scope():
            self.layers = linear_list(layers)

    def forward(self, x):
        for layer in self.layers:
            x = F.relu(layer(x))
        return x


class Sum(chainer.Chain):
    """The sum of what a network gives."""

    def __init__(self, predictor: chainer.Chain):
        super().__init__()
        with self.init_scope():
            self.predictor = predictor

    def forward(self, x):
        return F.sum(self.predictor(x))


def linear_list(layers: Layers) -> chainer.ChainList:
    """Return one ``L.Linear`` per pair of weights and bias."""
    return chainer.ChainList(
        *(L.Linear(w.shape[1], w.shape[0], initialW=w, initial_bias=b) for w, b in layers)
    )


def chainer_static(cls: type) -> type:
    """Return a subclass whose call is decorated with ``chainer.static_graph``."""
    decorated = chainer.static_graph(cls.forward)
    return type(cls.__name__, (cls,), {"__call__": decorated, "forward": decorated})


class ChainerRunner(Runner):
    """What all cases share: restoring, and reading sdbr's statistics."""

    model: chainer.Link
    optimizer: chainer.Optimizer | None = None

    def __init__(self, case: Case, style: str, device: str = "cpu"):
        super().__init__(case, device)
        self.style = style
        self.place = chainer.get_device(GPU if device == "cuda" else "@numpy")

    def batches_of(self, *arrays: np.ndarray) -> list[tuple[Any, ...]]:
        """Return the batches, on the device."""
        return [
            tuple(self.place.send(np.ascontiguousarray(x)) for x in batch)
            for batch in zip(*arrays, strict=True)
        ]

    def placed(self, model: chainer.Link) -> chainer.Link:
        """Move a model to the device, where that is not the host."""
        return model.to_device(self.place) if self.device == "cuda" else model

    def wait(self) -> None:
        if self.device == "cuda":
            cuda.cupy.cuda.get_current_stream().synchronize()

    def network(self, weights: Weights, cls: type = Perceptron) -> chainer.Chain:
        """Build the network of the case; Chainer's own decorator belongs to the class."""
        known = chainer_networks.NETWORKS.get(self.case.network)
        cls = known or cls
        cls = chainer_static(cls) if self.style == CHAINER_STATIC else cls
        return cls(weights) if known is None else chainer_networks.load(cls(), weights)

    def static(self, model: chainer.Link) -> chainer.Link:
        """Decorate the largest static piece, where the style is sdbr's."""
        return sdbr.static_graph(model) if self.style == SDBR else model

    def with_optimizer(self, optimizer: chainer.Optimizer, model: chainer.Link) -> None:
        """Set up the optimizer and note the first weights."""
        self.model = self.placed(model)
        if self.style == SDBR:
            optimizer = sdbr.static_optimizer(optimizer)
        self.optimizer = optimizer.setup(model)
        self.first = [param.array.copy() for param in model.params()]

    def reset(self) -> None:
        for param, first in zip(self.model.params(), self.first, strict=True):
            param.array[...] = first
            if self.optimizer is not None:
                _forget(param.update_rule)
        if self.optimizer is not None:
            self.optimizer.t = 0

    def versions(self) -> dict[str, str]:
        import scipy

        found = {
            "chainer": chainer.__version__,
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "sdbr": getattr(sdbr, "__version__", "unknown"),
        }
        return found | ({"cupy": cuda.cupy.__version__} if self.device == "cuda" else {})

    def managed(self) -> list[Any]:
        """Return what has a schedule manager."""
        return [self.model]

    def facts(self) -> dict[str, Any]:
        if self.style != SDBR:
            return {}
        found = {
            "statistics": [numbers(one.schedule_manager.statistics) for one in self.managed()],
            "audits": [one.schedule_manager.audits.to_dict() for one in self.managed()],
        }
        return found | ({"programs": self.programs()} if self.device == "cuda" else {})

    def programs(self) -> list[dict[str, Any]]:
        """Return the programs that a GPU runs: ops, and the kernels and nodes of their graphs."""
        return [
            {
                **{name: program[name] for name in ("name", "ops", "python_ops", "uncaptured")},
                "graphs": program["graphs"],
            }
            for one in self.managed()
            for manager in sdbr.explain(one).to_dict()["managers"]
            for schedule in manager["schedules"]
            for program in schedule.get("programs", ())
            if program["graphs"] is not None
        ]


def numbers(statistics: Any) -> dict[str, int]:
    """Return the counters of a schedule manager as plain integers."""
    names = [name for name in dir(statistics) if not name.startswith("_")]
    values = {name: getattr(statistics, name) for name in names}
    return {name: value for name, value in values.items() if isinstance(value, int)}


def _forget(rule: Any) -> None:
    if rule is None:
        return
    rule.t = 0
    for value in (rule.state or {}).values():
        if isinstance(value, chainer.get_array_types()):
            value[...] = 0


class Train(ChainerRunner):
    """``optimizer.update(model, x, t)``."""

    def __init__(self, case: Case, style: str, device: str = "cpu"):
        super().__init__(case, style, device)
        layers = case.weights()
        if case.kind == "chain":
            model = Sum(self.network(layers, DeepChain))
            optimizer = chainer.optimizers.SGD(lr=deep_chain.LEARNING_RATE)
            self.batches = self.batches_of(case.inputs())
        else:
            model = CrossEntropy(self.network(layers))
            optimizer = chainer.optimizers.Adam()
            self.batches = self.batches_of(case.inputs(), case.labels())
        self.ring = cycle(self.batches)
        self.with_optimizer(optimizer, self.static(model))

    def run(self, part: str, n: int) -> None:
        model, update = self.model, self.optimizer.update
        for batch in islice(self.ring, n):
            update(model, *batch)

    def check(self, part: str) -> list[float]:
        self.reset()
        losses = []
        # update() does not hand the loss out: a probe around the model keeps it.
        model = self.model

        def probe(*batch):
            losses.append(model(*batch))
            return losses[-1]

        for batch in self.batches[: self.case.check_steps]:
            if self.style == SDBR:
                # The whole step is replayed; the loss of the same weights comes from a call.
                with chainer.no_backprop_mode():
                    losses.append(model(*batch))
                self.optimizer.update(model, *batch)
            else:
                self.optimizer.update(probe, *batch)
        return [float(loss.array) for loss in losses]


class Infer(ChainerRunner):
    """A forward pass in test mode; the context managers belong to what is timed."""

    def __init__(self, case: Case, style: str, device: str = "cpu"):
        super().__init__(case, style, device)
        self.model = self.placed(self.static(self.network(case.weights())))
        self.first = [param.array.copy() for param in self.model.params()]
        self.inputs = [x for (x,) in self.batches_of(case.inputs())]
        self.ring = cycle(self.inputs)
        if style == CHAINER_STATIC:
            raise LeftOut("chainer.static_graph replays a forward pass in training only")

    def run(self, part: str, n: int) -> None:
        model = self.model
        for x in islice(self.ring, n):
            with chainer.using_config("train", False), chainer.no_backprop_mode():
                model(x)

    def check(self, part: str) -> list[float]:
        outputs = []
        for x in self.inputs[: self.case.check_steps]:
            with chainer.using_config("train", False), chainer.no_backprop_mode():
                outputs.append(self.model(x).array)
        on_host = map(chainer.get_device("@numpy").send, outputs)
        return np.concatenate(list(on_host)).ravel().tolist()
