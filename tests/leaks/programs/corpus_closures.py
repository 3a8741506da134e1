"""Python's own machinery around forward: closures, generators, decorators, globals, classes."""

import collections
import contextlib
import copy
import dataclasses
import enum
import functools
import itertools
import operator
import string
import types
import weakref

import chainer.functions as F
import numpy as np

from tests.leaks.programs._kit import Net, forward, function, loss, table

COUNT = 0
HISTORY = []
NAMES = {}
LIMIT = 3
TICKS = itertools.count()
FLAG = [False]
QUEUE = collections.deque(maxlen=3)
TALLY = collections.Counter()
BY_SIZE = collections.defaultdict(list)
ACT = F.tanh
STACK = []


class Mode(enum.Enum):
    SMALL = 1
    LARGE = 2


class Options(types.SimpleNamespace):
    pass


OPTIONS = Options(scale=1.0, layers=[1, 2], deep=Options(on=True))


@dataclasses.dataclass
class Tracker:
    n: int = 0
    total: float = 0.0
    last: object = None


TRACKER = Tracker()


def counted(f):
    calls = itertools.count()

    @functools.wraps(f)
    def inner(*args):
        return f(*args) * (1 + next(calls) % 2)

    return inner


def remembering(f):
    seen = {}

    @functools.wraps(f)
    def inner(self, x):
        seen[len(seen)] = len(x)
        return f(self, x) * len(seen)

    return inner


@counted
def times_calls(y):
    return y


@functools.lru_cache
def grid(n):
    return np.linspace(0, 1, n, dtype="f")


@contextlib.contextmanager
def scaled(y):
    STACK.append(len(STACK))
    try:
        yield y * (1 + len(STACK))
    finally:
        STACK.pop()


def default_list(y, seen=[]):  # noqa: B006
    seen.append(len(seen))
    return y * len(seen)


def default_dict(y, cache={}):  # noqa: B006
    cache[y.shape] = cache.get(y.shape, 0) + 1
    return y * cache[y.shape]


def make_counter():
    n = 0

    def count():
        nonlocal n
        n += 1
        return n

    return count


COUNTER = make_counter()


def make_averager():
    total, n = 0.0, 0

    def average(v):
        nonlocal total, n
        total, n = total + v, n + 1
        return total / n

    return average


AVERAGE = make_averager()


def ticker():
    n = 0
    while True:
        n += 1
        yield n


TICKER = ticker()


def averaging():
    mean = None
    while True:
        x = yield mean
        mean = x if mean is None else 0.5 * mean + 0.5 * x


def on_attribute(f):
    f.calls = 0
    return f


@on_attribute
def attribute_counter(y):
    attribute_counter.calls += 1
    return y * attribute_counter.calls


@functools.singledispatch
def scale_of(v):
    return 1.0


@scale_of.register(np.ndarray)
def _(v):
    return 2.0


class Callable:
    def __init__(self):
        self.n = 0

    def __call__(self, y):
        self.n += 1
        return y * self.n


CALLABLE = Callable()


class WithProperty:
    def __init__(self):
        self._n = 0

    @property
    def value(self):
        self._n += 1
        return self._n


PROPERTY = WithProperty()


class ClassLevel:
    count = 0
    seen = []  # noqa: RUF012
    mean = None

    @classmethod
    def tick(cls):
        cls.count += 1
        return cls.count

    @staticmethod
    def note(v):
        ClassLevel.seen.append(v)


def _g_count(y):
    global COUNT
    COUNT += 1
    return y * COUNT


def _g_count_only(y):
    global COUNT
    COUNT += 1
    return y


def _g_act(y):
    global ACT
    ACT = F.relu if ACT is F.tanh else F.tanh
    return ACT(y)


def _with(y):
    with scaled(y) as z, scaled(z) as w:
        return w


def _exit_stack(y):
    with contextlib.ExitStack() as stack:
        stack.callback(HISTORY.append, y.shape)
        return stack.enter_context(scaled(y))


def _suppress(y):
    with contextlib.suppress(KeyError):
        y = y * NAMES["missing"]
    return y


def _suppress_growing(y):
    with contextlib.suppress(IndexError):
        HISTORY.append(1)
        y = y * (10 + [1, 2, 3][len(HISTORY)])
    return y


def _setdefault(y):
    return y * NAMES.setdefault("first", y.shape[0])


def _class_mean(x):
    m = x.mean(0)
    ClassLevel.mean = m if ClassLevel.mean is None else 0.9 * ClassLevel.mean + 0.1 * m
    return x - ClassLevel.mean


def _tracker(y):
    TRACKER.n += 1
    TRACKER.last = y.array
    return y * TRACKER.n


def _replace(y):
    global TRACKER
    TRACKER = dataclasses.replace(TRACKER, n=TRACKER.n + 1)
    return y * TRACKER.n


def _tally(y):
    TALLY[y.shape[0]] += 1
    return y * TALLY.most_common(1)[0][1]


def _by_size(y):
    BY_SIZE[len(y)].append(float(len(y)))
    return y * len(BY_SIZE)


def _queue(x):
    QUEUE.append(x.mean(0))
    return x - sum(QUEUE) / len(QUEUE)


def _queue_plain(x):
    QUEUE.append(len(x))
    return x * sum(QUEUE)


def _flag(y):
    FLAG[0] = not FLAG[0]
    return y if FLAG[0] else -y


def _once(y):
    if not HISTORY:
        HISTORY.append("first")
        return y * 5
    return y


def _every_third(y):
    global COUNT
    COUNT += 1
    return y * 2 if COUNT % 3 == 0 else y


def _options(y):
    OPTIONS.scale *= 0.9
    return y * OPTIONS.scale


def _options_append(y):
    OPTIONS.layers.append(len(y))
    return y * len(OPTIONS.layers)


def _partial(y):
    add = functools.partial(operator.mul, 3)
    return add(y)


def _late_binding(y):
    fs = [lambda v, i=i: v * (i + 1) for i in range(3)]
    return sum(f(y) for f in fs)


def _weakref(y):
    return y * (2 if REF() is not None else 3)


REF = weakref.ref(CALLABLE)


def _chain_map(y):
    return y * collections.ChainMap({"a": len(NAMES)}, {"b": 2})["b"]


def _template(y):
    return y * len(string.Template("$n").substitute(n=len(HISTORY) + 1))


def _history_values(y):
    HISTORY.append(y.array.sum())
    return y


def _history_float(y):
    HISTORY.append(float(y.array.sum()))
    return y


def _history_variable(y):
    HISTORY.append(y)
    return y


def _history_copy(y):
    HISTORY.append(y.array.copy())
    return y


def _history_shape(y):
    HISTORY.append(y.shape)
    return y


def _history_argument(x):
    HISTORY.append(x)
    return x


def _history_string(y):
    HISTORY.append("called")
    return y


def _names_key(y):
    NAMES[f"call {len(NAMES)}"] = len(y)
    return y


def _names_array(y):
    NAMES["y"] = y.array
    return y


def _names_variable(y):
    NAMES["y"] = y
    return y


def _deep_copy_options(y):
    options = copy.deepcopy(OPTIONS)
    options.scale += 1
    return y * options.scale


table(
    globals(),
    forward,
    {
        "global_count_used": lambda self, x: _g_count(self.net(x)),
        "global_count_only": lambda self, x: _g_count_only(self.net(x)),
        "global_function_swapped": lambda self, x: _g_act(self.net(x)),
        "decorator_counter": lambda self, x: times_calls(self.net(x)),
        "decorator_inner_dict": remembering(lambda self, x: self.net(x)),
        "lru_cache_array": lambda self, x: self.net(x * grid(4)),
        "lru_cache_by_rows": lambda self, x: self.net(x) * grid(len(x))[:, None],
        "context_manager": lambda self, x: _with(self.net(x)),
        "exit_stack": lambda self, x: _exit_stack(self.net(x)),
        "suppress": lambda self, x: _suppress(self.net(x)),
        "suppress_growing": lambda self, x: _suppress_growing(self.net(x)),
        "default_list": lambda self, x: default_list(self.net(x)),
        "default_dict": lambda self, x: default_dict(self.net(x)),
        "nonlocal_counter": lambda self, x: self.net(x) * COUNTER(),
        "nonlocal_counter_ignored": lambda self, x: (COUNTER(), self.net(x))[1],
        "nonlocal_average": lambda self, x: self.net(x) * AVERAGE(len(x)),
        "nonlocal_average_of_value": lambda self, x: self.net(x) * AVERAGE(x.mean()),
        "itertools_count": lambda self, x: self.net(x) * next(TICKS),
        "itertools_count_ignored": lambda self, x: (next(TICKS), self.net(x))[1],
        "generator_global": lambda self, x: self.net(x) * next(TICKER),
        "generator_send": lambda self, x: self.net(x - self.average.send(x.mean(0))),
        "function_attribute": lambda self, x: attribute_counter(self.net(x)),
        "singledispatch": lambda self, x: self.net(x) * scale_of(x),
        "callable_object": lambda self, x: CALLABLE(self.net(x)),
        "property_with_effect": lambda self, x: self.net(x) * PROPERTY.value,
        "classmethod_tick": lambda self, x: self.net(x) * ClassLevel.tick(),
        "classmethod_tick_ignored": lambda self, x: (ClassLevel.tick(), self.net(x))[1],
        "staticmethod_note": lambda self, x: (
            ClassLevel.note(len(x)),
            self.net(x) * len(ClassLevel.seen),
        )[1],
        "class_mean": lambda self, x: self.net(_class_mean(x)),
        "dataclass_tracker": lambda self, x: _tracker(self.net(x)),
        "dataclass_replaced": lambda self, x: _replace(self.net(x)),
        "counter_tally": lambda self, x: _tally(self.net(x)),
        "defaultdict": lambda self, x: _by_size(self.net(x)),
        "deque_of_arrays": lambda self, x: self.net(_queue(x)),
        "deque_of_ints": lambda self, x: self.net(_queue_plain(x)),
        "flag_in_list": lambda self, x: _flag(self.net(x)),
        "only_once": lambda self, x: _once(self.net(x)),
        "every_third": lambda self, x: _every_third(self.net(x)),
        "namespace_decayed": lambda self, x: _options(self.net(x)),
        "namespace_list_grows": lambda self, x: _options_append(self.net(x)),
        "setdefault_shape": lambda self, x: _setdefault(self.net(x)),
        "partial": lambda self, x: _partial(self.net(x)),
        "late_binding": lambda self, x: _late_binding(self.net(x)),
        "weakref": lambda self, x: _weakref(self.net(x)),
        "chain_map": lambda self, x: _chain_map(self.net(x)),
        "template": lambda self, x: _template(self.net(x)),
        "history_np_sum": lambda self, x: _history_values(self.net(x)),
        "history_float": lambda self, x: _history_float(self.net(x)),
        "history_variable": lambda self, x: _history_variable(self.net(x)),
        "history_copy": lambda self, x: _history_copy(self.net(x)),
        "history_shape": lambda self, x: _history_shape(self.net(x)),
        "history_argument": lambda self, x: self.net(_history_argument(x)),
        "history_string": lambda self, x: _history_string(self.net(x)),
        "names_new_key": lambda self, x: _names_key(self.net(x)),
        "names_array": lambda self, x: _names_array(self.net(x)),
        "names_variable": lambda self, x: _names_variable(self.net(x)),
        "options_deepcopied": lambda self, x: _deep_copy_options(self.net(x)),
        "enum_by_rows": lambda self, x: (
            self.net(x) * (Mode.SMALL if len(x) < 5 else Mode.LARGE).value
        ),
        "operator_methodcaller": lambda self, x: operator.methodcaller("reshape", -1)(self.net(x)),
        "operator_attrgetter": lambda self, x: operator.attrgetter("l2")(self)(
            operator.attrgetter("l1")(self)(x)
        ),
        "reduce_layers": lambda self, x: functools.reduce(
            lambda h, link: link(F.tanh(h)), [self.l1, self.l2], x
        ),
        "getattr_loop": lambda self, x: functools.reduce(
            lambda h, i: getattr(self, f"l{i}")(h), (1, 2), x
        ),
        "walrus": lambda self, x: (h := self.l1(x)) is not None and self.l2(h),
        "starred_call": lambda self, x: F.add(*[self.net(x)] * 3),
        "kwargs_call": lambda self, x: F.dropout(x=self.net(x), ratio=0.3),
        "comprehension_conditions": lambda self, x: sum(self.net(x) * i for i in range(5) if i % 2),
        "try_finally": lambda self, x: _finally(self.net(x)),
        "recursion": lambda self, x: _recursive(self, self.l1(x), 3),
        "locals_lookup": lambda self, x: (lambda a, b: locals()["a"] * locals()["b"])(
            self.net(x), 2
        ),
        "globals_lookup": lambda self, x: self.net(x) * globals()["LIMIT"],
        "vars_lookup": lambda self, x: self.net(x) * vars(OPTIONS)["scale"],
        "isinstance_branch": lambda self, x: self.net(x) if isinstance(x, np.ndarray) else None,
        "type_name": lambda self, x: self.net(x) * len(type(x).__name__),
        "type_is_ndarray": lambda self, x: self.net(x) * (2 if type(x) is np.ndarray else 3),
        "zip_params": lambda self, x: self.net(x) + sum(F.sum(p * p) for p in self.params()),
        "sorted_params": lambda self, x: (
            self.net(x) * len(sorted(n for n, _ in self.namedparams()))
        ),
        "children": lambda self, x: functools.reduce(lambda h, c: c(h), self.children(), x),
    },
    average=lambda: _primed(averaging()),
)


def _primed(generator):
    next(generator)
    return generator


# The generator reads its own first value as None.
def _finally(y):
    try:
        return y * 2
    finally:
        HISTORY.append(len(HISTORY))


def _recursive(self, h, depth):
    return self.l2(h) if depth == 0 else _recursive(self, F.tanh(h), depth - 1)


table(
    globals(),
    function,
    {
        "fn_global_count": lambda x: _g_count(F.relu(x)),
        "fn_default_list": lambda x: default_list(F.relu(x)),
        "fn_history": lambda x: _history_copy(F.relu(x)),
        "fn_closure_counter": lambda x: F.relu(x) * COUNTER(),
        "fn_class_count": lambda x: F.relu(x) * ClassLevel.tick(),
        "fn_flag": lambda x: _flag(F.relu(x)),
        "fn_ticks": lambda x: F.relu(x) * next(TICKS),
        "fn_tracker": lambda x: _tracker(F.relu(x)),
        "fn_global_mean": lambda x: F.relu(_class_mean(x)),
    },
)


@loss
def p_loss_history_list(self, x, t):
    value = F.softmax_cross_entropy(self.net(x), t)
    HISTORY.append(value)
    return value


@loss
def p_loss_history_float(self, x, t):
    value = F.softmax_cross_entropy(self.net(x), t)
    HISTORY.append(float(value.array))
    return value


@loss
def p_loss_moving_average_global(self, x, t):
    value = F.softmax_cross_entropy(self.net(x), t)
    NAMES["loss"] = 0.9 * NAMES.get("loss", 0.0) + 0.1 * value.array
    return value


@loss
def p_loss_annealed_by_counter(self, x, t):
    global COUNT
    COUNT += 1
    return F.softmax_cross_entropy(self.net(x), t) * min(1.0, COUNT / 5)


def p_closure_over_model(run):
    model = Net()
    scale = {"value": 1.0}

    @run.static
    def score(x):
        return model.net(x) * scale["value"]

    for i in range(8):
        scale["value"] = 1.0 + i // 3
        y = score(run.array(6, 4))
        model.cleargrads()
        F.sum(y * y).backward()
        run.see("y", y, model)


def p_closure_rebound_float(run):
    model = Net()
    scale = 1.0

    @run.static
    def score(x):
        return model.net(x) * scale

    for i in range(8):
        scale = 0.5 * i
        run.see("y", score(run.array(6, 4)))


def p_closure_rebound_function(run):
    model = Net()
    act = F.relu

    @run.static
    def score(x):
        return act(model.net(x))

    for i in range(8):
        act = [F.relu, F.tanh, F.sigmoid][i % 3]
        run.see("y", score(run.array(6, 4)))


def p_closure_rebound_model(run):
    model = Net()

    @run.static
    def score(x):
        return model.net(x)

    for i in range(8):
        if i % 3 == 2:
            model = Net()
        run.see("y", score(run.array(6, 4)))


def p_closure_rebound_array(run):
    offset = run.array(3)
    model = Net()

    @run.static
    def score(x):
        return model.net(x) + offset

    for i in range(8):
        if i == 4:
            offset += 1
        if i == 6:
            offset = run.array(3)
        run.see("y", score(run.array(6, 4)))


def p_callback_list_outside(run):
    callbacks = []

    class Model(Net):
        @run.static
        def forward(self, x):
            y = self.net(x)
            for f in callbacks:
                y = f(y)
            return y

    model = Model()
    for i in range(8):
        if i == 3:
            callbacks.append(F.relu)
        if i == 6:
            callbacks[0] = lambda y: y * 3
        run.see("y", model(run.array(6, 4)))


def p_monkeypatched_method(run):
    class Model(Net):
        @run.static
        def forward(self, x):
            return self.head(x)

        def head(self, x):
            return self.net(x)

    model = Model()
    for i in range(9):
        if i == 3:
            model.head = lambda x: model.net(x) * 2
        if i == 6:
            del model.head
            Model.head = lambda self, x: self.net(x) * 3
        run.see("y", model(run.array(6, 4)))


def p_generator_shared_with_caller(run):
    numbers = iter(range(100))

    @run.static
    def scaled_by(x):
        return F.relu(x) * next(numbers)

    for i in range(8):
        if i % 3 == 2:
            run.see("taken", next(numbers))
        run.see("y", scaled_by(run.array(3, 2)))


def p_results_put_on_a_stack(run):
    stack = []

    @run.static
    def push(x):
        stack.append(F.relu(x))
        return stack[-1] * 2

    for _ in range(6):
        push(run.array(3, 2))
    run.see("stack", stack)


def p_set_of_shapes(run):
    shapes = set()

    @run.static
    def call(x):
        shapes.add(x.shape)
        return F.relu(x)

    for n in (3, 3, 4, 3, 4, 5, 5):
        call(run.array(n, 2))
        run.see("shapes", sorted(shapes))


def p_local_class_counts(run):
    class Meter:
        total = 0

        def add(self, v):
            Meter.total += v
            return self

    meter = Meter()

    @run.static
    def call(x):
        meter.add(len(x))
        return F.relu(x)

    for n in (3, 3, 3, 4, 4, 3):
        call(run.array(n, 2))
        run.see("total", Meter.total)
