"""Numbers in objects of libraries, errors that values decide about, and other state of a call."""

import threading
import types
import warnings

import sdbr

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np

from tests.leaks.programs.output import rounds

LIMITS = {"top": 1.0}
SETTINGS = types.ModuleType("settings_of_mine")
SETTINGS.rate = 1.0
SETTINGS.table = {"a": 2.0}
PAIR = {"optimizer": chainer.optimizers.MomentumSGD(0.5, 0.9)}


class Doubling(L.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


def held(body, make, change, n=8):
    """`body` reads `self.held`, made by `make`, which `change(model, i)` changes."""

    def program(run):
        class Model(chainer.Chain):
            def __init__(self):
                super().__init__()
                with self.init_scope():
                    self.layer = L.Linear(4, 3)
                self.held = make()

            forward = run.static(body)

        model = Model()
        model.layer.W.array[...] = run.array(3, 4)
        for i in range(n):
            change(model, i)
            run.see("y", model(run.array(2, 4)))
        run.see("model", model)

    return program


def at(i, then):
    """A change made once, before round `i`."""
    return lambda model, k: then(model) if k == i else None


p_proxy = held(
    lambda self, x: F.clip(self.layer(x), -1.0, self.held["top"]),
    lambda: types.MappingProxyType(LIMITS),
    lambda model, i: LIMITS.update(top=1.0 + i // 4),
)
p_proxy_in_a_list = held(
    lambda self, x: self.layer(x) * self.held[0]["top"],
    lambda: [types.MappingProxyType(LIMITS)],
    lambda model, i: LIMITS.update(top=1.0 + i // 4),
)
p_proxy_replaced = held(
    lambda self, x: self.layer(x) * self.held["top"],
    lambda: types.MappingProxyType({"top": 1.5}),
    at(4, lambda m: setattr(m, "held", types.MappingProxyType({"top": 2.5}))),
)
p_module = held(
    lambda self, x: self.layer(x) * self.held.rate,
    lambda: SETTINGS,
    at(4, lambda m: setattr(SETTINGS, "rate", 3.0)),
)
p_module_table = held(
    lambda self, x: self.layer(x) * self.held.table["a"],
    lambda: SETTINGS,
    at(4, lambda m: SETTINGS.table.update(a=5.0)),
)
p_module_in_an_object = held(
    lambda self, x: self.layer(x) * self.held.module.rate,
    lambda: types.SimpleNamespace(module=SETTINGS),
    at(4, lambda m: setattr(SETTINGS, "rate", 3.0)),
)
p_optimizer = held(
    lambda self, x: self.layer(x) * self.held.lr,
    lambda: chainer.optimizers.RMSprop(0.5),
    at(4, lambda m: setattr(m.held.hyperparam, "lr", 0.25)),
)
p_optimizer_momentum = held(
    lambda self, x: self.layer(x) * self.held["optimizer"].momentum,
    lambda: PAIR,
    at(4, lambda m: setattr(PAIR["optimizer"], "momentum", 0.25)),
)
p_initializer = held(
    lambda self, x: self.layer(x) * self.held.scale,
    lambda: chainer.initializers.HeNormal(0.5),
    at(4, lambda m: setattr(m.held, "scale", 2.0)),
)
p_child_name = held(
    lambda self, x: self.layer(x) * len(self.layer.name),
    lambda: None,
    at(4, lambda m: setattr(m.layer, "name", "another")),
)
p_child_class = held(
    lambda self, x: self.layer(x),
    lambda: None,
    at(4, lambda m: setattr(m.layer, "__class__", Doubling)),
)


def p_times_updated(run):
    class Model(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.layer = L.Linear(4, 3)

        @run.static
        def forward(self, x):
            return F.sum(self.layer(x) ** 2) / (1 + self.layer.W.update_rule.t)

    model = Model()
    model.layer.W.array[...] = run.array(3, 4)
    optimizer = run.optimizer(chainer.optimizers.SGD(0.01).setup(model))
    for _ in range(10):
        optimizer.update(model, run.array(2, 4))
        run.see("model", model)


def _not_invertible(self, x):
    try:
        inverse = np.linalg.inv(x[:, :2] * (x[:, :2] > 0))
    except np.linalg.LinAlgError:
        inverse = np.eye(2, dtype="f")
    return self.layer(np.concatenate([inverse, inverse], 1))


class Refused(Exception):
    pass


@sdbr.static_code
def refuse_large(x):
    if x.max() > 1.5:
        raise Refused


def _refused(self, x):
    try:
        refuse_large(x)
    except Refused:
        return -self.layer(x)
    return self.layer(x)


def _overflows(self, x):
    try:
        with np.errstate(divide="raise"):
            scale = 1 / (x > 1).sum(dtype="f")
    except FloatingPointError:
        scale = 0.5
    return self.layer(x) * scale


def _in_a_function(self, x):
    try:
        with np.errstate(all="raise"):
            return F.log(self.layer(x))
    except FloatingPointError:
        return self.layer(x)


def _errors_of_warnings(self, x):
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        try:
            root = np.sqrt(x[:, 0])
        except RuntimeWarning:
            root = x[:, 0]
    return self.layer(x) * root[:, None]


def _counted_warnings(self, x):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        np.log(x)
    return self.layer(x) * (1 + len(seen))


def _ignored_warnings(self, x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        root = np.nan_to_num(np.sqrt(x))
    return self.layer(root)


def _quiet_division(self, x):
    with np.errstate(divide="ignore", invalid="ignore"):
        root = np.nan_to_num(np.sqrt(x))
    return self.layer(root)


p_linalg = rounds(_not_invertible)
p_error_of_its_own = rounds(_refused, n=8)
p_errstate = rounds(_overflows)
p_errstate_in_a_function = rounds(_in_a_function)
p_warnings_as_errors = rounds(_errors_of_warnings)
p_warnings_counted = rounds(_counted_warnings)
p_warnings_ignored = rounds(_ignored_warnings)
p_errstate_ignored = rounds(_quiet_division)


def _imaginary(self, x):
    z = np.zeros(x.shape, "F")
    z.real = x
    z.imag = x[::-1]
    return self.layer(np.abs(z))


def _imaginary_of_derived(self, x):
    z = x * (1 + 0j)
    z.imag[...] = 1
    z.real = abs(x)
    return self.layer(np.abs(z).astype("f"))


p_imag_set = rounds(_imaginary)
p_real_set = rounds(_imaginary_of_derived)


def p_no_gradient_given(run):
    model = run.static(L.Linear(4, 3))
    for _ in range(5):
        y = model(run.array(2, 4))
        try:
            y.backward()
        except Exception as e:
            run.see("raised", isinstance(e, AttributeError))
        model.cleargrads()
        F.sum(y).backward()
        run.see("model", model)


def p_counted_in_a_local_class(run):
    class Seen:
        rows = 0

    @run.static
    def call(x):
        Seen.rows += len(x)
        return F.relu(x)

    for n in (2, 2, 2, 5, 5, 2):
        run.see("y", call(run.array(n, 3)))
        run.see("rows", Seen.rows)


def p_list_of_sizes(run):
    sizes = []

    @run.static
    def call(x):
        sizes.append(len(x))
        return F.relu(x)

    for _ in range(6):
        run.see("y", call(run.array(2, 3)))
    run.see("sizes", sizes)


def p_name_of_a_worker(run):
    @run.static
    def call(x):
        return F.relu(x) * len(threading.current_thread().name)

    for name in ("a", "a", "longer", "a"):
        worker = threading.Thread(target=lambda: run.see("y", call(run.array(2, 3))), name=name)
        worker.start()
        worker.join(30)


ACTIVATION = F.tanh
MEMORY = None


def _hard(h):
    return F.clip(h, -0.5, 0.5)


def _swaps(self, x):
    global ACTIVATION
    ACTIVATION = F.sigmoid if ACTIVATION is F.tanh else F.tanh
    return ACTIVATION(self.layer(x))


def _swaps_its_own(self, x):
    global ACTIVATION
    ACTIVATION = _hard if ACTIVATION is F.tanh else F.tanh
    return ACTIVATION(self.layer(x))


def _forgets(self, x):
    global MEMORY
    MEMORY = {"scale": 2.0} if MEMORY is None else None
    return self.layer(x) if MEMORY is None else self.layer(x) * MEMORY["scale"]


def _swaps_lambdas(self, x):
    global ACTIVATION
    k = 2.0 if ACTIVATION is F.tanh else 1.0
    ACTIVATION = F.tanh if k == 1.0 else lambda h: h * k
    return ACTIVATION(self.layer(x))


p_function_swapped = rounds(_swaps, n=9)
p_function_of_its_own_swapped = rounds(_swaps_its_own, n=9)
p_dict_and_none = rounds(_forgets, n=9)
p_lambda_swapped = rounds(_swaps_lambdas, n=9)


class Total(chainer.FunctionNode):
    def forward(self, inputs):
        self.total = float(inputs[0].sum())
        return (inputs[0] * 1,)

    def backward(self, indexes, grads):
        return grads


class OldTotal(chainer.Function):
    def forward(self, inputs):
        self.total = inputs[0].max()
        self.shape = inputs[0].shape
        return (inputs[0] * 1,)

    def backward(self, inputs, grads):
        return grads


def _number_of_a_node(self, x):
    node = Total()
    (y,) = node.apply((self.layer(x),))
    return y * node.total


def _number_of_an_old_function(self, x):
    function = OldTotal()
    return function(self.layer(x)) * function.total


def _rank_of_a_node(self, x):
    node = Total()
    (y,) = node.apply((self.layer(x),))
    return y * (1 + node.rank + len(node.inputs))


def _nonlocal_of_a_node(self, x):
    largest = 0.0

    class Largest(chainer.FunctionNode):
        def forward(self, inputs):
            nonlocal largest
            largest = float(inputs[0].max())
            return (inputs[0] * 1,)

    (y,) = Largest().apply((self.layer(x),))
    return y * largest


def _only_reads(self, x):
    factors = [2.0, 3.0]

    class Scaled(chainer.FunctionNode):
        def forward(self, inputs):
            return (inputs[0] * factors[0],)

    return Scaled().apply((self.layer(x),))[0] * factors[1]


p_number_of_a_node = rounds(_number_of_a_node)
p_number_of_an_old_function = rounds(_number_of_an_old_function)
p_rank_of_a_node = rounds(_rank_of_a_node)
p_nonlocal_of_a_node = rounds(_nonlocal_of_a_node)
p_node_that_only_reads = rounds(_only_reads)
