"""What type checkers see of the public face: read by them, and never run.

Lines that end with ``# wrong`` are errors, all others are none.
"""
# pyright: reportAttributeAccessIssue=true

from typing import Any

import sdbr
from sdbr.inspection.explain import Report
from sdbr.inspection.profile import Profile
from sdbr.static_optimizer import StaticUpdate

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np
from chainer import Variable
from chainer.optimizers import Adam
from typing_extensions import assert_type


class MLP(chainer.Chain):
    def __init__(self, n_units: int) -> None:
        super().__init__()
        self.seen = 0
        with self.init_scope():
            self.l1 = L.Linear(None, n_units)

    @sdbr.static_graph
    def forward(self, x: np.ndarray, slope: float = 0.2) -> Variable:
        return F.leaky_relu(self.l1(x), slope)

    @sdbr.static_graph(on_dynamic="raise", max_schedules=4)
    def score(self, x: np.ndarray) -> tuple[Variable, str]:
        y = self.l1(x)
        self.count(inputs=[x])
        return y, "scored"

    @sdbr.static_code
    def count(self, inputs: list[np.ndarray]) -> None:
        self.seen += len(inputs)


class Sibling(MLP):
    # Parameters of a method that is an object are compared as a whole by pyright, `self` as well.
    @sdbr.static_graph
    def forward(  # pyright: ignore[reportIncompatibleVariableOverride]
        self, x: np.ndarray, slope: float = 0.1
    ) -> Variable:
        return super().forward(x, slope=slope)


@sdbr.static_graph
def distance(a: np.ndarray, b: np.ndarray) -> Variable:
    return F.sum((a - b) ** 2)


@sdbr.static_code(func_name="largest")
def largest(inputs: list[np.ndarray]) -> np.ndarray:
    return inputs[0].max(axis=1)


x = np.ones((4, 3), dtype=np.float32)

# --- what is decorated keeps its type -------------------------------------------------------------
model = sdbr.static_graph(MLP(3))
assert_type(model, MLP)
assert_type(sdbr.static_graph(MLP(3), backend="numpy", validate_every=2), MLP)
assert_type(sdbr.static_graph(memory="low")(MLP(3)), MLP)
assert_type(model.forward(x, slope=0.3), Variable)
assert_type(model.score(x), tuple[Variable, str])
assert_type(MLP.score(model, x), tuple[Variable, str])
assert_type(distance(x, b=x), Variable)
assert_type(largest([x]), np.ndarray)
model.count([x])
manager = distance.schedule_manager
if manager is not None:
    manager.clear()

optimizer = sdbr.static_optimizer(chainer.optimizers.Adam())
assert_type(optimizer, Adam)
optimizer.setup(model)
optimizer.update(model, x)
if isinstance(optimizer, StaticUpdate):
    print(optimizer.update_plan, optimizer.lr)
lossfun: Any = model
steps: int = sdbr.warm_up(optimizer, lossfun, x)

# --- reports, snapshots and the rest --------------------------------------------------------------
assert_type(sdbr.explain(model), Report)
print(sdbr.explain(optimizer, run=lambda: optimizer.update(model, x)).to_dict())
with sdbr.profile(model) as measured:
    model.score(x)
assert_type(measured, Profile)
sdbr.save_snapshot("net.npz", model)
sdbr.load_snapshot("net.npz", model, strict=False)
sdbr.synchronize()
updater_class = sdbr.training.StandardUpdater
version: str = sdbr.__version__
try:
    model.score(x)
except (sdbr.NotStaticError, sdbr.BackendError) as error:
    base: sdbr.SdbrError = error

# --- mistakes are found ---------------------------------------------------------------------------
model.score(x, 3)  # wrong
model.forward(x, slope="steep")  # wrong
model.forward(x, slop=0.3)  # wrong
distance(x)  # wrong
distance.schedule_manager = 3  # wrong
largest("x")  # wrong
sdbr.static_graph(model, backend="cpython")  # wrong
sdbr.static_graph(model, on_dynamic="ignore")  # wrong
sdbr.static_graph(model, max_schedule=3)  # wrong
sdbr.static_graph(3)  # wrong
sdbr.static_code(3)  # wrong
sdbr.static_optimizer("Adam")  # wrong
sdbr.explain(model, 10)  # wrong
