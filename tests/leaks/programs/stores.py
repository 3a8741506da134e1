"""What a call leaves outside its chain (14), and what it reads past what byte code names (15)."""

import collections
import contextlib
import contextvars
import ctypes
import functools
import operator
import sys
import types
import weakref

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np

LATEST = None
TRAIL: list = []
BOARD: dict = {}
WINDOW: collections.deque = collections.deque(maxlen=3)
GAIN = 2.0


class Monitor:
    hidden = None
    logits = None
    mode = "idle"
    pair = ()


class Net(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l1 = L.Linear(4, 8)
            self.l2 = L.Linear(8, 3)


def train(run, cls, look, before=None, n=6):
    """A loop of forward, backward and SGD; `look` sees what the call has left."""
    model = cls()
    optimizer = chainer.optimizers.SGD(0.1).setup(model)
    for i in range(n):
        if before is not None:
            before(i)
        loss = model(run.array(5, 4), run.labels(5, 3))
        model.cleargrads()
        loss.backward()
        optimizer.update()
        run.see("loss", loss)
        look(i)


# --- 14: stores ----------------------------------------------------------------------------------
def p_14_class_attribute(run):
    class Model(Net):
        @run.static
        def forward(self, x, t):
            Monitor.hidden = F.tanh(self.l1(x))
            return F.softmax_cross_entropy(self.l2(Monitor.hidden), t)

    train(run, Model, lambda i: run.see("hidden", Monitor.hidden, Monitor.hidden.grad))


def p_14_class_store_only(run):
    class Model(Net):
        @run.static
        def forward(self, x, t):
            h = F.tanh(self.l1(x))
            Monitor.logits = y = self.l2(h)
            return F.softmax_cross_entropy(y, t)

    train(run, Model, lambda i: run.see("logits", Monitor.logits))


def p_14_type_of_self(run):
    class Model(Net):
        best = None

        @run.static
        def forward(self, x, t):
            y = self.l2(F.relu(self.l1(x)))
            type(self).best = F.max(y, axis=1)
            return F.softmax_cross_entropy(y, t)

    train(run, Model, lambda i: run.see("best", Model.best))


def p_14_class_array(run):
    class Model(Net):
        @run.static
        def forward(self, x, t):
            y = self.l2(F.relu(self.l1(x)))
            Monitor.logits = y.array.max(axis=1)
            return F.softmax_cross_entropy(y, t)

    train(run, Model, lambda i: run.see("array", type(Monitor.logits).__name__, Monitor.logits))


def p_14_class_tuple(run):
    class Model(Net):
        @run.static
        def forward(self, x, t):
            h = F.relu(self.l1(x))
            y = self.l2(h)
            Monitor.pair = (h, y)
            return F.softmax_cross_entropy(y, t)

    train(run, Model, lambda i: run.see("pair", list(Monitor.pair)))


def p_14_module_attribute(run):
    board = types.ModuleType("my_board")
    board.attention = None

    class Model(Net):
        @run.static
        def forward(self, x, t):
            h = self.l1(x)
            board.attention = F.softmax(h)
            return F.softmax_cross_entropy(self.l2(board.attention * h), t)

    train(run, Model, lambda i: run.see("attention", board.attention))


def p_14_module_of_the_program(run):
    here = sys.modules.setdefault("stores_board", types.ModuleType("stores_board"))
    here.energy = None

    class Model(Net):
        @run.static
        def forward(self, x, t):
            import stores_board

            y = self.l2(F.relu(self.l1(x)))
            stores_board.energy = F.sum(y * y)
            return F.softmax_cross_entropy(y, t)

    train(run, Model, lambda i: run.see("energy", here.energy))


def p_14_function_attribute(run):
    def hidden(model, x):
        h = F.relu(model.l1(x))
        hidden.last = h
        return h

    class Model(Net):
        @run.static
        def forward(self, x, t):
            return F.softmax_cross_entropy(self.l2(hidden(self, x)), t)

    train(run, Model, lambda i: run.see("last", hidden.last))


def p_14_global(run):
    class Model(Net):
        @run.static
        def forward(self, x, t):
            global LATEST
            LATEST = self.l2(F.relu(self.l1(x)))
            return F.softmax_cross_entropy(LATEST, t)

    train(run, Model, lambda i: run.see("latest", LATEST))


def p_14_nonlocal(run):
    kept = None

    class Model(Net):
        @run.static
        def forward(self, x, t):
            nonlocal kept
            y = self.l2(F.relu(self.l1(x)))
            kept = F.log_softmax(y)
            return F.softmax_cross_entropy(y, t)

    train(run, Model, lambda i: run.see("kept", kept))


def p_14_name_of_a_variable(run):
    class Model(Net):
        @run.static
        def forward(self, x):
            y = self.l2(F.relu(self.l1(x)))
            y.name = "scores"
            return y

    model = Model()
    for _ in range(5):
        y = model(run.array(5, 4))
        run.see("name", y, y.name)


def p_14_attribute_of_a_result(run):
    class Model(Net):
        @run.static
        def forward(self, x):
            a = F.softmax(self.l1(x))
            y = self.l2(a)
            y.attention = a
            return y

    model = Model()
    for _ in range(5):
        y = model(run.array(5, 4))
        run.see("attention", y, getattr(y, "attention", None))


def p_14_attribute_of_an_argument(run):
    class Model(Net):
        @run.static
        def forward(self, x):
            x.embedded = F.tanh(self.l1(x))
            return self.l2(x.embedded)

    model = Model()
    for _ in range(5):
        x = chainer.Variable(run.array(5, 4))
        y = model(x)
        run.see("embedded", y, getattr(x, "embedded", None))


def p_14_attribute_of_a_parameter(run):
    class Model(Net):
        @run.static
        def forward(self, x):
            self.l1.W.activation = F.tanh(self.l1(x))
            return self.l2(self.l1.W.activation)

    model = Model()
    for _ in range(5):
        y = model(run.array(5, 4))
        run.see("activation", y, model.l1.W.activation)


def p_14_config(run):
    class Model(Net):
        @run.static
        def forward(self, x, t):
            y = self.l2(F.relu(self.l1(x)))
            chainer.config.my_logits = y
            return F.softmax_cross_entropy(y, t)

    try:
        train(run, Model, lambda i: run.see("config", chainer.config.my_logits))
    finally:
        if hasattr(chainer.config, "my_logits"):
            del chainer.config.my_logits


def p_14_config_number(run):
    class Model(Net):
        @run.static
        def forward(self, x, t):
            chainer.config.my_batch = len(x)
            return F.softmax_cross_entropy(self.l2(F.relu(self.l1(x))), t)

    def before(i):
        chainer.config.my_batch = -1

    try:
        train(run, Model, lambda i: run.see("config", chainer.config.my_batch), before)
    finally:
        del chainer.config.my_batch


def p_14_list(run):
    class Model(Net):
        @run.static
        def forward(self, x, t):
            y = self.l2(F.relu(self.l1(x)))
            TRAIL.append(y)
            return F.softmax_cross_entropy(y, t)

    train(run, Model, lambda i: run.see("trail", len(TRAIL), TRAIL[-1]))


def p_14_long_list(run):
    TRAIL.extend([0] * 100)

    class Model(Net):
        @run.static
        def forward(self, x, t):
            y = self.l2(F.relu(self.l1(x)))
            TRAIL.append(F.argmax(y, axis=1))
            return F.softmax_cross_entropy(y, t)

    train(run, Model, lambda i: run.see("trail", len(TRAIL), TRAIL[-1]))


def p_14_dict_item(run):
    class Model(Net):
        @run.static
        def forward(self, x, t):
            y = self.l2(F.relu(self.l1(x)))
            BOARD["logits"] = y
            return F.softmax_cross_entropy(y, t)

    train(run, Model, lambda i: run.see("board", BOARD["logits"]))


def p_14_deque(run):
    class Model(Net):
        @run.static
        def forward(self, x, t):
            y = self.l2(F.relu(self.l1(x)))
            WINDOW.append(y.array)
            return F.softmax_cross_entropy(y, t)

    train(run, Model, lambda i: run.see("window", type(WINDOW[-1]).__name__, list(WINDOW)))


def p_14_object(run):
    monitor = Monitor()

    class Model(Net):
        @run.static
        def forward(self, x, t):
            y = self.l2(F.relu(self.l1(x)))
            monitor.logits = y
            return F.softmax_cross_entropy(y, t)

    train(run, Model, lambda i: run.see("logits", monitor.logits))


def p_14_object_with_slots(run):
    class Slotted:
        __slots__ = ("seen",)

    slotted = Slotted()
    slotted.seen = None

    class Model(Net):
        @run.static
        def forward(self, x, t):
            y = self.l2(F.relu(self.l1(x)))
            slotted.seen = y
            return F.softmax_cross_entropy(y, t)

    train(run, Model, lambda i: run.see("seen", slotted.seen))


def p_14_setattr(run):
    class Model(Net):
        @run.static
        def forward(self, x, t):
            y = self.l2(F.relu(self.l1(x)))
            setattr(Monitor, "hid" + "den", y)
            return F.softmax_cross_entropy(y, t)

    train(run, Model, lambda i: run.see("hidden", Monitor.hidden))


def p_14_mode_that_is_reset(run):
    class Model(Net):
        @run.static
        def forward(self, x, t):
            Monitor.mode = "forward"
            return F.softmax_cross_entropy(self.l2(F.relu(self.l1(x))), t)

    def before(i):
        Monitor.mode = "idle"

    train(run, Model, lambda i: run.see("mode", Monitor.mode), before)


def p_14_mode_reset_later(run):
    class Model(Net):
        @run.static
        def forward(self, x, t):
            Monitor.mode = "forward"
            return F.softmax_cross_entropy(self.l2(F.relu(self.l1(x))), t)

    def before(i):
        if i > 3:
            Monitor.mode = "idle"

    train(run, Model, lambda i: run.see("mode", Monitor.mode), before)


def p_14_descriptor_of_a_class(run):
    class Meta(type):
        store = BOARD

        @property
        def last(cls):
            return Meta.store["last"]

        @last.setter
        def last(cls, y):
            Meta.store["last"] = y

    class Board(metaclass=Meta):
        pass

    class Model(Net):
        @run.static
        def forward(self, x, t):
            y = self.l2(F.relu(self.l1(x)))
            Board.last = y
            return F.softmax_cross_entropy(y, t)

    train(run, Model, lambda i: run.see("last", Board.last))


def p_14_in_a_whole_step(run):
    class Model(Net):
        def forward(self, x, t):
            y = self.l2(F.relu(self.l1(x)))
            Monitor.logits = y
            return F.softmax_cross_entropy(y, t)

    model = run.static(Model())
    optimizer = run.optimizer(chainer.optimizers.Adam()).setup(model)
    for _ in range(6):
        optimizer.update(model, run.array(5, 4), run.labels(5, 3))
        run.see("logits", Monitor.logits, model)


def p_14_context_variable(run):
    holder: contextvars.ContextVar = contextvars.ContextVar("holder", default=None)

    class Model(Net):
        @run.static
        def forward(self, x, t):
            y = self.l2(F.relu(self.l1(x)))
            holder.set(y)
            return F.softmax_cross_entropy(y, t)

    train(run, Model, lambda i: run.see("holder", holder.get()))


def p_14_running_state(run):
    class Model(Net):
        @run.static
        def forward(self, x, t):
            y = self.l2(F.relu(self.l1(x)))
            if Monitor.hidden is None:
                Monitor.hidden = y
            Monitor.hidden = 0.5 * Monitor.hidden + 0.5 * y
            return F.softmax_cross_entropy(Monitor.hidden, t)

    model = Model()
    for _ in range(6):
        loss = model(run.array(5, 4), run.labels(5, 3))
        run.see("running", loss, Monitor.hidden)


# --- 15: reads -----------------------------------------------------------------------------------
class Knobs:
    scale = 1.0
    shift = 0.0

    def __init__(self, scale=1.0):
        self.scale = scale


def follow(run, f, change, n=8):
    """`f` of new arrays, with `change(i)` in between."""
    for i in range(n):
        change(i)
        run.see("y", f(run.array(3, 4)))


def p_15_context_manager(run):
    knobs = Knobs()

    @contextlib.contextmanager
    def scaled():
        yield knobs.scale

    @run.static
    def f(x):
        with scaled() as s:
            return F.tanh(x) * int(s)

    def change(i):
        knobs.scale = 1 + i // 3

    follow(run, f, change)


def p_15_context_manager_in_a_list(run):
    power = [2]

    @contextlib.contextmanager
    def setting():
        with contextlib.ExitStack() as stack:
            stack.callback(lambda: None)
            yield power[0]

    @run.static
    def f(x):
        with setting() as p:
            return x**p + chainer.Variable(x)

    def change(i):
        power[0] = 2 + i // 3

    follow(run, f, change)


def p_15_single_dispatch(run):
    knobs = Knobs()

    @functools.singledispatch
    def transform(x):
        return x

    @transform.register
    def _(x: chainer.Variable):
        return x * knobs.scale

    @run.static
    def f(x):
        return transform(F.tanh(x))

    def change(i):
        knobs.scale = 1.0 + i // 3

    follow(run, f, change)


def p_15_single_dispatch_method(run):
    start = [1.0]

    class Model(Net):
        factors = start

        @functools.singledispatchmethod
        def scale(self, x):
            raise TypeError

        @scale.register
        def _(self, x: chainer.Variable):
            return x * Model.factors[0]

        @run.static
        def forward(self, x):
            return self.scale(self.l1(x))

    def change(i):
        Model.factors[0] = 1.0 + i // 3

    follow(run, Model(), change)


def p_15_partial_method(run):
    settings = {"slope": 0.1}

    class Model(Net):
        def activate(self, x, name):
            return F.leaky_relu(x, settings[name])

        leaky = functools.partialmethod(activate, name="slope")

        @run.static
        def forward(self, x):
            return self.l2(self.leaky(self.l1(x)))

    def change(i):
        settings["slope"] = 0.1 * (1 + i // 3)

    follow(run, Model(), change)


def p_15_method_by_name(run):
    class Model(Net):
        mode = "soft"
        factor = 1.0

        def mode_soft(self, x):
            return F.softmax(x) * Model.factor

        @run.static
        def forward(self, x):
            return getattr(self, "mode_" + self.mode)(self.l1(x))

    def change(i):
        Model.factor = 1.0 + i // 3

    follow(run, Model(), change)


def p_15_attribute_by_name(run):
    class Options:
        rate_small = 1
        rate_large = 5

    which = "small"

    @run.static
    def f(x):
        return F.tanh(x) * getattr(Options, "rate_" + which)

    def change(i):
        Options.rate_small = 1 + i // 3

    follow(run, f, change)


def p_15_eval(run):
    global GAIN

    @run.static
    def f(x):
        return eval("F.tanh(x) * GAIN")

    for i in range(8):
        GAIN = 1.0 + i // 3
        run.see("y", f(run.array(3, 4)))


def p_15_eval_of_code(run):
    source = compile("lambda x: x * BOARD['gain']", "<formula>", "eval")

    @run.static
    def f(x):
        return eval(source)(F.tanh(x))

    def change(i):
        BOARD["gain"] = 1.0 + i // 3

    follow(run, f, change)


def p_15_attribute_getter(run):
    class Options:
        pass

    Options.inner = Knobs()
    scale_of = operator.attrgetter("inner.scale")

    @run.static
    def f(x):
        return F.tanh(x) * scale_of(Options)

    def change(i):
        Options.inner.scale = 1 + i // 3

    follow(run, f, change)


def p_15_item_getter(run):
    table = {"a": {"gain": 1}}
    gain_of = operator.itemgetter("gain")

    @run.static
    def f(x):
        return F.tanh(x) * gain_of(table["a"])

    def change(i):
        table["a"]["gain"] = 1 + i // 3

    follow(run, f, change)


def p_15_method_caller(run):
    class Schedule:
        level = 1

        def current(self):
            return Schedule.level

    schedule = Schedule()
    ask = operator.methodcaller("current")

    @run.static
    def f(x):
        return F.tanh(x) * ask(schedule)

    def change(i):
        Schedule.level = 1 + i // 3

    follow(run, f, change)


def p_15_function_in_a_map(run):
    class Options:
        factor = 1

    def grow(x):
        return x * Options.factor

    def apply(function, things):
        return [function(thing) for thing in things]

    @run.static
    def f(x):
        return apply(grow, [F.tanh(x)])[0]

    def change(i):
        Options.factor = 1 + i // 3

    follow(run, f, change)


def p_15_function_from_a_registry(run):
    class Registry:
        def __init__(self):
            self._table = collections.UserDict()

        def add(self, function):
            self._table[function.__name__] = function
            return function

        def __getitem__(self, name):
            return self._table[name]

    registry = Registry()

    class Options:
        factor = 1

    @registry.add
    def grow(x):
        return x * Options.factor

    @run.static
    def f(x):
        return registry["grow"](F.tanh(x))

    def change(i):
        Options.factor = 1 + i // 3

    follow(run, f, change)


def p_15_function_as_keyword(run):
    level = [1]

    class Net2(chainer.Chain):
        def __init__(self, activation):
            super().__init__()
            self.settings = types.MappingProxyType({"activation": activation})

        @run.static
        def forward(self, x):
            return self.settings["activation"](x)

    def activation(x):
        return F.relu(x) * level[0]

    def change(i):
        level[0] = 1 + i // 3

    follow(run, Net2(activation), change)


def p_15_function_attribute(run):
    def gain(x):
        return x * gain.factor

    @run.static
    def f(x):
        return gain(F.tanh(x))

    def change(i):
        gain.factor = 1 + i // 3

    follow(run, f, change)


def p_15_default_getattr(run):
    class Options:
        def __init__(self):
            self.__dict__["_values"] = {"rate": 1}

        def __getattr__(self, name):
            try:
                return self._values[name]
            except KeyError:
                raise AttributeError(name) from None

    options = Options()

    @run.static
    def f(x):
        return F.tanh(x) * options.rate

    def change(i):
        options._values["rate"] = 1 + i // 3

    follow(run, f, change)


def p_15_getattr_of_a_module_level_dict(run):
    class Options:
        def __getattr__(self, name):
            return BOARD.get(name, 1)

    options = Options()

    @run.static
    def f(x):
        return F.tanh(x) * options.rate

    def change(i):
        BOARD["rate"] = 1 + i // 3

    follow(run, f, change)


def p_15_metaclass(run):
    class Meta(type):
        level = 1

        @property
        def scale(cls):
            return Meta.level

    class Options(metaclass=Meta):
        pass

    @run.static
    def f(x):
        return F.tanh(x) * Options.scale

    def change(i):
        Meta.level = 1 + i // 3

    follow(run, f, change)


def p_15_metaclass_item(run):
    start = {"scale": 1}

    class Meta(type):
        table = start

        def __getitem__(cls, name):
            return cls.table[name]

    class Options(metaclass=Meta):
        pass

    @run.static
    def f(x):
        return F.tanh(x) * Options["scale"]

    def change(i):
        Meta.table["scale"] = 1 + i // 3

    follow(run, f, change)


def _own_module(name, source):
    module = types.ModuleType(name)
    module.__file__ = f"/home/me/project/{name}.py"
    exec(compile(source, module.__file__, "exec"), module.__dict__)
    return module


def p_15_module_like_the_library(run):
    queue = _own_module("queue", "LEVEL = 1\ndef level():\n    return LEVEL\n")

    @run.static
    def f(x):
        return F.tanh(x) * queue.level()

    def change(i):
        queue.LEVEL = 1 + i // 3

    follow(run, f, change)


def p_15_class_of_a_module_like_the_library(run):
    tabnanny = _own_module("tabnanny", "class Options:\n    scale = 1\n")
    sys.modules["tabnanny"] = tabnanny

    @run.static
    def f(x):
        return F.tanh(x) * tabnanny.Options.scale

    def change(i):
        tabnanny.Options.scale = 1 + i // 3

    try:
        follow(run, f, change)
    finally:
        del sys.modules["tabnanny"]


def p_15_number_of_a_module_like_the_library(run):
    random_ = _own_module("random", "SCALE = 1\n")

    @run.static
    def f(x):
        return F.tanh(x) * random_.SCALE

    def change(i):
        random_.SCALE = 1 + i // 3

    follow(run, f, change)


def p_15_user_dict(run):
    settings = collections.UserDict(gain=1)

    @run.static
    def f(x):
        return F.tanh(x) * settings["gain"]

    def change(i):
        settings["gain"] = 1 + i // 3

    follow(run, f, change)


def p_15_user_list(run):
    settings = collections.UserList([1])

    @run.static
    def f(x):
        return F.tanh(x) * settings[0]

    def change(i):
        settings[0] = 1 + i // 3

    follow(run, f, change)


def p_15_chain_map(run):
    mine: dict = {}
    settings = collections.ChainMap(mine, {"gain": 1})

    @run.static
    def f(x):
        return F.tanh(x) * settings["gain"]

    def change(i):
        if i > 3:
            mine["gain"] = i // 3

    follow(run, f, change)


def p_15_mapping_proxy(run):
    raw = {"gain": 1}
    settings = types.MappingProxyType(raw)

    @run.static
    def f(x):
        return F.tanh(x) * settings["gain"]

    def change(i):
        raw["gain"] = 1 + i // 3

    follow(run, f, change)


def p_15_user_dict_on_the_chain(run):
    class Model(Net):
        def __init__(self):
            super().__init__()
            self.settings = collections.UserDict(gain=1)

        @run.static
        def forward(self, x):
            return self.l1(x) * self.settings["gain"]

    model = Model()

    def change(i):
        model.settings["gain"] = 1 + i // 3

    follow(run, model, change)


def p_15_context_var(run):
    gain: contextvars.ContextVar = contextvars.ContextVar("gain", default=1)

    @run.static
    def f(x):
        return F.tanh(x) * gain.get()

    def change(i):
        gain.set(1 + i // 3)

    follow(run, f, change)


def p_15_context_var_in_a_function(run):
    options: contextvars.ContextVar = contextvars.ContextVar("options")
    options.set(Knobs())

    def gain():
        return options.get().scale

    @run.static
    def f(x):
        return F.tanh(x) * gain()

    def change(i):
        options.get().scale = 1 + i // 3

    follow(run, f, change)


def p_15_ctypes(run):
    gain = ctypes.c_int(1)

    @run.static
    def f(x):
        return F.tanh(x) * gain.value

    def change(i):
        gain.value = 1 + i // 3

    follow(run, f, change)


def p_15_ctypes_structure(run):
    class Options(ctypes.Structure):
        _fields_ = [("gain", ctypes.c_int)]

    options = Options(1)

    @run.static
    def f(x):
        return F.tanh(x) * options.gain

    def change(i):
        options.gain = 1 + i // 3

    follow(run, f, change)


def p_15_weak_reference(run):
    knobs = Knobs(1)
    ref = weakref.ref(knobs)

    @run.static
    def f(x):
        return F.tanh(x) * ref().scale

    def change(i):
        knobs.scale = 1 + i // 3

    follow(run, f, change)


def p_15_weak_proxy(run):
    knobs = Knobs(1)
    proxy = weakref.proxy(knobs)

    @run.static
    def f(x):
        return F.tanh(x) * proxy.scale

    def change(i):
        knobs.scale = 1 + i // 3

    follow(run, f, change)


def p_15_weak_dictionary(run):
    knobs = Knobs(1)
    table = weakref.WeakValueDictionary(main=knobs)

    @run.static
    def f(x):
        return F.tanh(x) * table["main"].scale

    def change(i):
        knobs.scale = 1 + i // 3

    follow(run, f, change)


def p_15_object_in_config(run):
    chainer.global_config.my_knobs = Knobs(1)

    @run.static
    def f(x):
        return F.tanh(x) * chainer.config.my_knobs.scale

    def change(i):
        chainer.config.my_knobs.scale = 1 + i // 3

    try:
        follow(run, f, change)
    finally:
        del chainer.global_config.my_knobs


def p_15_list_in_config(run):
    chainer.global_config.my_levels = [1, [1]]

    @run.static
    def f(x):
        return F.tanh(x) * chainer.config.my_levels[1][0]

    def change(i):
        chainer.config.my_levels[1][0] = 1 + i // 3

    try:
        follow(run, f, change)
    finally:
        del chainer.global_config.my_levels


def p_15_function_in_config(run):
    level = [1]
    chainer.global_config.my_gain = lambda: level[0]

    @run.static
    def f(x):
        return F.tanh(x) * chainer.config.my_gain()

    def change(i):
        level[0] = 1 + i // 3

    try:
        follow(run, f, change)
    finally:
        del chainer.global_config.my_gain


def p_15_cached_function(run):
    class Options:
        scale = 1

    @functools.cache
    def gain():
        return Options.scale

    @run.static
    def f(x):
        return F.tanh(x) * gain()

    def change(i):
        Options.scale = 1 + i // 3
        if i % 2:
            gain.cache_clear()

    follow(run, f, change)


def p_15_cached_property(run):
    class Model(Net):
        @functools.cached_property
        def gain(self):
            return Monitor.pair[0]

        @run.static
        def forward(self, x):
            return self.l1(x) * self.gain

    model = Model()

    def change(i):
        Monitor.pair = (1 + i // 3,)
        if i == 5:
            del model.gain

    follow(run, model, change)


def p_15_generator_function(run):
    class Options:
        scales = (1, 2)

    def scales():
        yield from Options.scales

    @run.static
    def f(x):
        return sum(F.tanh(x) * s for s in scales())

    def change(i):
        Options.scales = (1, 2 + i // 3)

    follow(run, f, change)


def p_15_descriptor(run):
    class Gain:
        level = 1

        def __get__(self, thing, owner):
            return Gain.level

    class Options:
        gain = Gain()

    @run.static
    def f(x):
        return F.tanh(x) * Options.gain

    def change(i):
        Gain.level = 1 + i // 3

    follow(run, f, change)


def p_15_decorator_class(run):
    class Options:
        gain = 1

    class Decorated:
        def __init__(self, function):
            functools.update_wrapper(self, function)
            self.function = function

        def __call__(self, *args):
            return self.function(*args) * Options.gain

    @Decorated
    def squash(x):
        return F.tanh(x)

    @run.static
    def f(x):
        return squash(x)

    def change(i):
        Options.gain = 1 + i // 3

    follow(run, f, change)


def p_15_reduce(run):
    class Options:
        gain = 1

    @run.static
    def f(x):
        return functools.reduce(lambda a, b: a + b * Options.gain, [F.tanh(x), x, np.ones_like(x)])

    def change(i):
        Options.gain = 1 + i // 3

    follow(run, f, change)


def p_15_frame_locals(run):
    gain = 1

    @run.static
    def f(x):
        return F.tanh(x) * sys._getframe(0).f_globals["BOARD"]["frame"]

    def change(i):
        BOARD["frame"] = gain + i // 3

    follow(run, f, change)


def p_15_dict_of_a_frozen_class(run):
    Entry = collections.namedtuple("Entry", "knobs")
    entry = Entry(Knobs(1))

    @run.static
    def f(x):
        return F.tanh(x) * entry.knobs.scale

    def change(i):
        entry.knobs.scale = 1 + i // 3

    follow(run, f, change)
