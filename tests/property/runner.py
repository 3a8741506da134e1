"""What a case does with its network, event by event, and everything that this leaves behind.

The source of this module is part of every printed script: it needs sdbr, chainer and NumPy only.
"""

from __future__ import annotations

import contextlib
import copy
import gc
import warnings

import sdbr

import chainer
import numpy as np
from chainer import functions as F

OPTIMIZERS = {
    "SGD": lambda: chainer.optimizers.SGD(0.05),
    "MomentumSGD": lambda: chainer.optimizers.MomentumSGD(0.05),
    "Adam": lambda: chainer.optimizers.Adam(0.01, amsgrad=True),
    "AdaGrad": lambda: chainer.optimizers.AdaGrad(0.05),
}
HOOKS = {
    "decay": lambda: chainer.optimizer_hooks.WeightDecay(0.01),
    "clip": lambda: chainer.optimizer_hooks.GradientClipping(0.5),
    "python": lambda: _hook,
}
#: A call as it is when an event does not say otherwise.
CALL = {
    "n": 2,  # rows of the batch
    "train": True,
    "backprop": True,
    "x": "array",  # array, variable, constant (a Variable without gradient), again, fed (a result)
    "calls": 1,  # calls before one backward
    "clear": "cleargrads",  # cleargrads, zerograds, keep (accumulate)
    "back": "all",  # all, first, last, separate, given, grad, later, none
    "hold": False,  # whoever called keeps results and gradients to the end
    "update": True,
}


def _hook(optimizer):
    for param in optimizer.target.params():
        if param.grad is not None:
            param.grad *= 0.9


_hook.name, _hook.call_for_each_param = "python", False


class Refused(Exception):
    """Define-by-run itself raises: no case."""


class Run:
    """One model through all events.

    Parameters
    ----------
    make : callable
        Returns the network; random numbers are seeded before.
    static : bool
    events : list of (str, dict)
    settings : dict
        dtype, tail (shape of a row), form, optimizer, hooks, layout, static_optimizer, options.
    noise : float
        Relative size of random changes of data and parameters, to learn how sensitive the
        results are.
    """

    def __init__(self, make, static, events, settings, noise=0.0, seed=0):
        self.settings = settings
        self.static = static
        self.noise = noise
        self.noise_rng = np.random.RandomState(seed)
        self.rng = np.random.RandomState(1)
        self.records, self.held, self.later, self.managers = [], [], [], []
        self.last, self.last_result = None, None
        np.random.seed(0)
        with chainer.using_config("dtype", np.dtype(settings["dtype"])):
            self.model = make()
        for p in self.model.params():
            p.array[...] = self.disturbed(p.array)
        if static:
            self.model = self.decorated(self.model)
        self.set_up()
        self.second_pass = {}
        for k in range(2):  # the second time nothing is new
            self.model.state, self.model.alpha, self.last = None, 0.5, None
            self.model.first.lstm.reset_state()
            self.model.enable_update()
            self.model.cleargrads()
            manager = getattr(self.model, "schedule_manager", None)
            if manager is not None and k:
                self.second_pass = manager.statistics.to_dict()
            for i, (kind, options) in enumerate(events):
                self.where = f"pass {k}, event {i} ({kind})"
                np.random.seed(100 + i)
                getattr(self, kind)(options)
                self.observe()
        self.go_back_later()
        self.where = "at the end"
        for i, (what, thing) in enumerate(self.held):
            self.record(f"held {what} {i}", thing)

    def decorated(self, model):
        if self.settings["form"] == "method":
            forward = sdbr.static_graph(type(model).forward, **self.settings["options"])
            model.__class__ = type("Decorated", (type(model),), {"forward": forward})
            return model
        return sdbr.static_graph(model, **self.settings["options"])

    def set_up(self):
        """Optimizers: of the whole model, or of two parts of it."""
        m = self.model
        targets = [m] if self.settings["layout"] == "whole" else [m.first, m.second]
        self.optimizers = []
        for target in targets:
            optimizer = OPTIMIZERS[self.settings["optimizer"]]()
            if self.static and self.settings["static_optimizer"]:
                optimizer = sdbr.static_optimizer(optimizer)
            optimizer.setup(target)
            for name in self.settings["hooks"]:
                optimizer.add_hook(HOOKS[name]())
            self.optimizers.append(optimizer)
        if self.static:
            self.managers.append(m)

    # --- what is compared ------------------------------------------------------------------
    def record(self, what, thing):
        thing = getattr(thing, "array", thing)
        self.records.append((f"{self.where}: {what}", None if thing is None else np.array(thing)))

    def observe(self):
        for name, p in sorted(self.model.namedparams()):
            self.record(name, p.array)
            self.record(f"gradient of {name}", p.grad)
        for path, link in self.model.namedlinks():
            for name in sorted(link._persistent):
                self.record(f"{path}/{name}", link.__dict__[name])
        for k, optimizer in enumerate(self.optimizers):
            self.record(f"optimizer {k} t", optimizer.t)
            for name, p in sorted(optimizer.target.namedparams()):
                for key, state in sorted((p.update_rule.state or {}).items()):
                    self.record(f"optimizer {k} {name} {key}", state)
        self.record("state", self.model.state)
        self.record("kept", self.model.kept)
        self.record("c of the LSTM", self.model.first.lstm.c)
        state = np.random.get_state()
        self.record("random numbers", int(state[2]) + int(state[1][:8].sum()))

    def disturbed(self, array):
        if not self.noise:
            return array
        change = 1 + self.noise * self.noise_rng.standard_normal(array.shape)
        return np.asarray(array * change, array.dtype).reshape(array.shape)

    # --- events ----------------------------------------------------------------------------
    def data(self, n):
        h = self.model.first.lstm.h
        if h is not None and len(h) < n:  # which Chainer refuses
            self.model.first.lstm.reset_state()
        shape = (n, *self.settings["tail"])
        x = self.rng.uniform(-1, 1, shape).astype(self.settings["dtype"])
        return self.disturbed(x), self.rng.randint(0, 3, n).astype("i")

    def argument(self, kind, n):
        x, t = self.data(n)
        if kind == "again" and self.last is not None and len(self.last) == n:
            return self.last, t
        if kind == "fed" and self.last_result is not None and self.last_result.shape == x.shape:
            return self.last_result, t
        if kind in ("variable", "constant"):
            x = chainer.Variable(x, requires_grad=kind == "variable")
        self.last = x
        return x, t

    def call(self, options):
        o = {**CALL, **options}
        reporter = chainer.Reporter()
        reporter.add_observer("main", self.model)
        inputs, results = [], []
        self.last_result = None
        with (
            chainer.using_config("train", o["train"]),
            chainer.using_config("enable_backprop", o["backprop"]),
            reporter.scope({}),
        ):
            for _ in range(o["calls"]):
                x, t = self.argument(o["x"], o["n"])
                result = self.model(x, t)
                inputs.append(x)
                results.append(result)
                self.last_result = result[0]
                for i, y in enumerate(result):
                    self.record(f"result {i}", y)
        for name, value in sorted(reporter.observation.items()):
            self.record(f"reported {name}", value)
        ys = [y for result in results for y in result if y.requires_grad and y.dtype.kind == "f"]
        if ys and o["backprop"] and o["back"] != "none":
            self.clear(o["clear"])
            if o["back"] == "later":
                self.later.append((ys, inputs, o))
                return
            self.backward(ys, inputs, o)
        else:
            self.go_back_later()
        if o["hold"]:
            self.held += [("result", y.array) for y in ys]

    def go_back_later(self):
        for later in self.later:
            self.backward(*later)
        self.later = []

    def clear(self, how):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # zerograds is deprecated
            for optimizer in self.optimizers:
                optimizer.use_cleargrads(how != "zerograds")
            if how != "keep":
                getattr(self.model, how)()

    def backward(self, ys, inputs, o):
        variables = [x for x in inputs if isinstance(x, chainer.Variable)]
        how = o["back"]
        if how == "grad":
            params = [p for p in self.model.params() if p.array is not None]
            wanted = [*params, *[x for x in variables if x.requires_grad and x.creator is None]]
            grads = chainer.grad(ys, wanted, [chainer.Variable(np.cos(y.array)) for y in ys])
            for i, g in enumerate(grads):
                self.record(f"chainer.grad {i}", g)
            return
        if how in ("first", "last"):
            ys = ys[:1] if how == "first" else ys[-1:]
        if how == "given":
            for y in ys:
                y.grad = np.cos(y.array).reshape(y.shape)
            chainer.backward(ys)
        elif how == "separate":
            for y in ys:
                F.mean(F.tanh(y)).backward()
        else:
            sum(F.mean(F.tanh(y)) * (1 + i) for i, y in enumerate(ys)).backward()
        for i, x in enumerate(variables):
            self.record(f"gradient of argument {i}", x.grad)
        if o["hold"]:
            self.held += [(f"gradient of {k}", p.grad) for k, p in sorted(self.model.namedparams())]
        if o["update"]:
            for optimizer in self.optimizers:
                optimizer.update()

    def step(self, options):
        """Forward, backward and update by the optimizer."""
        self.go_back_later()
        self.clear(options.get("clear", "cleargrads"))
        x, t = self.data(options.get("n", 2))
        for optimizer in self.optimizers:
            optimizer.update(self.model, x, t, loss=True)

    def alpha(self, options):
        self.model.alpha = options["value"]

    def freeze(self, options):
        link = getattr(self.model, options["part"])
        link.enable_update() if options["off"] else link.disable_update()

    def replace(self, options):
        """New arrays or other contents for parameters."""
        for i, p in enumerate(self.model.params()):
            if options["how"] == "contents":
                p.array[...] = np.sin(p.array + i)
            elif options["how"] == "array":
                p.array = np.sin(p.array + i)
            else:
                p.array = np.asfortranarray(np.sin(p.array + i))

    def parameter(self, options):
        """Another object in the place of a parameter."""
        with self.model.init_scope():
            self.model.p = chainer.Parameter(np.sin(self.model.p.array + 1))
        self.set_up()

    def state_of(self, options):
        if self.model.state is not None and options["how"] == "unchain":
            self.model.state.unchain_backward()
        elif options["how"] == "reset":
            self.model.state = None
            self.model.first.lstm.reset_state()

    def duplicate(self, options):
        self.go_back_later()
        if options["how"] == "deepcopy":
            self.model.state = self.model.kept = None
            self.model.first.lstm.reset_state()
            self.model = copy.deepcopy(self.model)
        else:
            self.model = self.model.copy(options["how"])
        self.set_up()

    def collect(self, options):
        gc.collect()

    def rate(self, options):
        for optimizer in self.optimizers:
            name = "alpha" if hasattr(optimizer, "alpha") else "lr"
            setattr(optimizer, name, options["value"])


@contextlib.contextmanager
def other_rounding(rng):
    """Inside, what a function of Chainer's gives is off by up to two units in the last place."""
    apply = chainer.FunctionNode.apply

    def rounded(node, inputs):
        outputs = apply(node, inputs)
        for y in outputs:
            a = y.array
            if a is not None and a.dtype.kind == "f" and a.flags.owndata and a.flags.writeable:
                a *= (1 + 2 * np.finfo(a.dtype).eps * rng.uniform(-1, 1, a.shape)).astype(a.dtype)
        return outputs

    chainer.FunctionNode.apply = rounded
    try:
        yield
    finally:
        chainer.FunctionNode.apply = apply


def tolerance_of(dtype, what, single):
    """The contract: relative to the largest magnitude of the array.

    `single`: something on the way went through float32, whose last digit is all there is then.
    """
    if dtype == np.dtype("f8") and not single:
        return 1e-12
    return 1e-5 if "result" in what or "reported" in what else 1e-4


def compare(make_plain, make_static, events, settings):
    """Run both ways and raise AssertionError where static differs from define-by-run.

    An array may differ by the contract times its largest magnitude, and by ten times what
    define-by-run itself gives otherwise when data and parameters change by a tenth of the
    contract and every function by its last digits: where digits cancel, or a comparison hangs
    on the last digit, there are no more.

    Raises
    ------
    Refused
        If define-by-run raises.

    Returns
    -------
    Run, int
        The static run, and how many arrays define-by-run leaves hardly a digit of.
    """
    with np.errstate(all="ignore"):
        try:
            plain = Run(make_plain, False, events, settings)
        except Exception as error:
            raise Refused(repr(error)) from error
        static = Run(make_static, True, events, settings)
        want, got = plain.records, static.records
        assert [w for w, _ in got] == [w for w, _ in want], "other arrays than define-by-run"
        others = []

        def noisy(count):
            size = 1e-13 if settings["dtype"] == "d" else 1e-6
            while len(others) < count:
                seed = len(others)
                with other_rounding(np.random.RandomState(seed)):
                    others.append(Run(make_plain, False, events, settings, size, seed).records)
            return others[:count]

        loose = 0
        for i, ((what, w), (_, g)) in enumerate(zip(want, got, strict=True)):
            assert (g is None) == (w is None), f"{what}: {g is None} is None, {w is None} wanted"
            if w is None:
                continue
            assert g.shape == w.shape and g.dtype == w.dtype, f"{what}: {g.dtype}{g.shape}"
            if w.dtype.kind != "f":
                same = np.array_equal(g, w)
                assert same or any(not np.array_equal(n[i][1], w) for n in noisy(2)), (
                    f"{what}: {g} is not {w}"
                )
                continue
            if not np.isfinite(w).all():
                return static, loose + 1  # define-by-run left the finite numbers
            tolerance = tolerance_of(w.dtype, what, settings.get("single"))
            scale = np.abs(w).max(initial=0)
            difference = np.abs(g - w).max(initial=0)
            if difference <= tolerance * scale:
                continue
            for count in (2, 12):
                spread = max(np.abs(n[i][1] - w).max(initial=0) for n in noisy(count))
                if difference <= tolerance * scale + 10 * spread:
                    break
            else:
                raise AssertionError(
                    f"{what}: off by {difference:.3g}; largest magnitude {scale:.3g}, spread of "
                    f"define-by-run {spread:.3g}\n  got  {g.ravel()[:8]}\n  want {w.ravel()[:8]}"
                )
            loose += spread > 1e-3 * scale
    return static, loose
