"""Programs that read something from outside, and what changes of it after the first call.

Each yields a function; what it does afterwards is the change. `PROGRAMS` has its name, itself, and
which guard has to see the change: its text, or the beginning of why the call is dynamic.
"""

from __future__ import annotations

import abc
import asyncio
import collections
import concurrent.futures
import contextvars
import copy
import dataclasses
import datetime
import decimal
import enum
import functools
import itertools
import json
import operator
import os
import sys
import threading
import types
import weakref

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np

PROGRAMS: list = []
KEPT: list = []  # classes that else lived until the collector ran


def seen_as(text: str):
    """Enter a program."""

    def enter(program):
        PROGRAMS.append((program.__name__, program, text))
        return program

    return enter


class Thing(types.SimpleNamespace):
    """Has attributes, and is hashed by identity."""

    __hash__ = object.__hash__

    def times(self, x):
        return x * self.k

    def loss(self, y, t):
        return F.sum(y) * self.k


# --- what Python code reads of objects ----------------------------------------------------------
@seen_as("things[1].w")
def attribute_of_the_largest():
    things = [Thing(k=1.0, w=5.0), Thing(k=2.0, w=7.0)]
    yield lambda x: x * max(things, key=lambda o: o.k).w
    things[1].w = 9.0


@seen_as("things[1].w")
def attribute_of_the_first_when_sorted():
    things = [Thing(k=1.0, w=5.0), Thing(k=2.0, w=7.0)]
    yield lambda x: x * sorted(things, key=lambda o: -o.k)[0].w
    things[1].w = 9.0


@seen_as("thing.k")
def computed_name():
    thing = Thing(k=2.0)
    yield lambda x: x * getattr(thing, "".join(["k"]))
    thing.k = 3.0


@seen_as("pair.b is pair.a")
def two_paths_to_one_object():
    thing = Thing(k=2.0)
    pair = Thing(a=thing, b=thing)
    yield lambda x: x * pair.a.k * pair.b.k
    pair.b = Thing(k=2.0)


@seen_as("pair.b is pair.a")
def whether_two_are_one():
    one, other = Thing(), Thing()
    pair = Thing(a=one, b=one)
    yield lambda x: x * (2 if pair.a is pair.b else 3)
    pair.b = other


@seen_as("hasattr(thing, 'k')")
def has_an_attribute():
    thing = Thing(k=2.0)
    yield lambda x: x * next(o.k for o in [thing] if hasattr(o, "k")) if hasattr(thing, "k") else x
    del thing.k


@seen_as("thing.k")
def attribute_error_that_is_caught():
    thing = Thing()

    def f(x):
        try:
            return x * thing.k
        except AttributeError:
            return x

    yield f
    thing.k = 2.0


@seen_as("thing._k")
def property_of_the_users():
    class Asked(Thing):
        @property
        def k(self):
            return self._k

    thing = Asked(_k=2.0)
    yield lambda x: x * thing.k
    thing._k = 3.0


@seen_as("thing._k")
def descriptor_of_the_users():
    class Descriptor:
        def __get__(self, thing, kind):
            return thing._k

    class Described:
        k = Descriptor()

    thing = Described()
    thing._k = 2.0
    yield lambda x: x * thing.k
    thing._k = 3.0


@seen_as("thing.k")
def cached_property():
    class Cached:
        @functools.cached_property
        def k(self):
            return 2.0

    thing = Cached()
    assert thing.k
    yield lambda x: x * thing.k
    thing.__dict__["k"] = 3.0


@seen_as("thing.k")
def slot():
    class Slotted:
        __slots__ = ("k",)

    thing = Slotted()
    thing.k = 2.0
    yield lambda x: x * thing.k
    thing.k = 3.0


@seen_as("table['k']")
def getattr_of_a_metaclass():
    class Meta(type):
        def __getattr__(cls, name):
            return table[name]

    class Made(metaclass=Meta):
        pass

    table = {"k": 2.0}
    yield lambda x: x * Made.k
    table["k"] = 3.0


@seen_as("super(Below, thing).times")
def method_of_a_superclass():
    class Above:
        def times(self, x):
            return x * 2

    class Below(Above):
        def times(self, x):
            return super().times(x)

    thing = Below()
    yield lambda x: thing.times(x)
    Above.times = lambda self, x: x * 3


@seen_as("Made.k")
def class_attribute_of_a_new_object():
    class Made:
        k = 2.0

    def f(x):
        made = Made()
        return x * made.k

    yield f
    Made.k = 3.0


@seen_as("classes[0].thing.k")
def class_whose_new_does_the_work():
    class Made:
        thing = Thing(k=2.0)

        def __new__(cls, x):
            return x * cls.thing.k

    classes = [Made]
    yield lambda x: classes[0](x)
    Made.thing.k = 3.0


@seen_as("k")
def variable_of_an_enclosing_function():
    def make():
        k = 2.0

        def times(x):
            return x * k

        def change(to):
            nonlocal k
            k = to

        return times, change

    times, change = make()
    yield lambda x: times(x)
    change(3.0)


@seen_as("k")
def function_made_by_exec():
    space = {"k": 2.0}
    exec("def f(x): return x * k", space)
    del space["__builtins__"]
    function = space["f"]
    yield lambda x: function(x)
    space["k"] = 3.0


@seen_as("thing.k")
def evaluated_text():
    thing = Thing(k=2.0)
    yield lambda x: x * eval("thing.k", {"thing": thing})
    thing.k = 3.0


@seen_as("thing.k")
def text_that_is_evaluated_here():
    thing = Thing(k=2.0)

    def f(x):
        number, array = thing.k, np.ones(2)  # noqa: F841
        return eval("x * number * array[0]")

    yield f
    thing.k = 3.0


@seen_as("loc.k")
def local_of_the_thread():
    loc = threading.local()
    loc.k = 2.0
    yield lambda x: x * loc.k
    loc.k = 3.0


@seen_as("thing.k")
def pattern_matching():
    thing = Point()
    yield lambda x: x * 2 if matches(thing) else x * 3
    thing.k = 3.0


@dataclasses.dataclass(order=True)
class Point:
    k: float = 2.0


def matches(thing):
    match thing:
        case Point(k=2.0):
            return True
    return False


@seen_as("small.k")
def order_of_dataclasses():
    small, large = Point(1.0), Point(2.0)
    yield lambda x: x * (2 if small < large else 3)
    small.k = 5.0


@seen_as("thing.k")
def asdict():
    thing = Point()
    yield lambda x: x * dataclasses.asdict(thing)["k"]
    thing.k = 3.0


@seen_as("config.mode")
def enumeration():
    class Mode(enum.Enum):
        ONE = 1

    config = Thing(mode=Mode.ONE)
    yield lambda x: x * config.mode.value
    config.mode = Thing(value=1)


@seen_as("Made.__add__")
def operator_of_a_class():
    class Made:
        def __add__(self, x):
            return x * 2

    made = Made()
    yield lambda x: made + x
    Made.__add__ = lambda self, x: x * 3


@seen_as("made.times.k")
def attribute_of_a_method():
    class Made:
        def times(self):
            pass

    Made.times.k = 2.0
    made = Made()
    yield lambda x: x * made.times.k
    Made.times.k = 3.0


# --- bound methods of plain objects -------------------------------------------------------------
@seen_as("p.func.__self__.k")
def bound_method_in_a_partial():
    thing = Thing(k=2.0)
    p = functools.partial(thing.times)
    yield lambda x: p(x)
    thing.k = 3.0


@seen_as("functions[0].__self__.k")
def bound_method_in_a_list():
    thing = Thing(k=2.0)
    functions = [thing.times]
    yield lambda x: functions[0](x)
    thing.k = 3.0


@seen_as("times.__self__.k")
def bound_method_as_a_default():
    thing = Thing(k=2.0)

    def f(x, times=thing.times):
        return times(x)

    yield f
    thing.k = 3.0


@seen_as("<method>.__self__.k")
def bound_method_in_a_frozenset():
    thing = Thing(k=2.0)
    functions = frozenset([thing.times])
    yield lambda x: [f(x) for f in functions][0]  # noqa: RUF015
    thing.k = 3.0


@seen_as("<method>.__self__.k")
def bound_method_as_a_key():
    thing = Thing(k=2.0)
    functions = {thing.times: 2.0}
    yield lambda x: next(iter(functions))(x)
    thing.k = 3.0


@seen_as("thing.k")
def map_over_bound_methods():
    thing = Thing(k=2.0)
    yield lambda x: list(map(lambda f: f(x), [thing.times]))[0]  # noqa: C417, RUF015
    thing.k = 3.0


@seen_as("model.lossfun.__self__.k")
def loss_function_of_a_classifier():
    thing = Thing(k=2.0)
    model = L.Classifier(L.Linear(2, 2), lossfun=thing.loss)
    model.compute_accuracy = False
    yield lambda x: model(x, np.zeros(2, "i"))
    thing.k = 3.0


@seen_as("model._layers[1].__self__.k")
def layer_of_a_sequential():
    thing = Thing(k=2.0)
    model = chainer.Sequential(L.Linear(2, 2), thing.times)
    yield lambda x: model(x)
    thing.k = 3.0


@seen_as("link.activate.__self__.k")
def activation_of_a_highway():
    thing = Thing(k=2.0)
    link = L.Highway(2, activate=thing.times)
    yield lambda x: link(x)
    thing.k = 3.0


@seen_as("get.__self__['k']")
def get_of_a_dict_that_is_kept():
    table = {"k": 2.0}
    get = table.get
    yield lambda x: x * get("k")
    table["k"] = 3.0


@seen_as("len(size.__self__)")
def len_of_a_list_that_is_kept():
    numbers = [1, 2]
    size = numbers.__len__
    yield lambda x: x * size()
    numbers.append(3)


# --- containers ---------------------------------------------------------------------------------
@seen_as("the keys of table, in order")
def order_of_an_ordered_dict():
    table = collections.OrderedDict(a=2.0, b=3.0)
    yield lambda x: functools.reduce(lambda h, k: h * table[k] + 1, table, x)
    table.move_to_end("a")


@seen_as("the keys of table, in order")
def order_of_a_dict():
    table = {"a": 2.0, "b": 3.0}
    yield lambda x: functools.reduce(lambda h, k: h * table[k] + 1, list(table), x)
    table["a"] = table.pop("a")


@seen_as("the elements of numbers")
def elements_of_a_set():
    numbers = {1, 2, 3}
    yield lambda x: x * sum(numbers)
    numbers.add(5)


@seen_as("the elements of numbers")
def order_of_a_set():
    numbers = {8, 16}
    yield lambda x: x * list(numbers)[0]  # noqa: RUF015
    numbers.clear()
    numbers.update(range(100))


@seen_as("len(numbers)")
def smallest_of_a_list():
    numbers = [3, 1, 2]
    yield lambda x: x * min(numbers)
    numbers.append(0)


@seen_as("len(numbers)")
def slice_of_a_list():
    numbers = [1.0, 2.0]
    yield lambda x: x * sum(numbers[:1])
    numbers.insert(0, 5.0)


@seen_as("len(numbers)")
def item_from_the_end():
    numbers = [1.0, 2.0]
    yield lambda x: x * numbers[-1]
    numbers.append(5.0)


@seen_as("len(things)")
def sum_over_a_generator():
    things = [Thing(k=2.0)]
    yield lambda x: x * sum(o.k for o in things)
    things.append(Thing(k=4.0))


@seen_as("things[0].k")
def list_given_as_arguments():
    things = [Thing(k=2.0), Thing(k=3.0)]
    yield lambda x: (lambda p, q: x * p.k)(*things)
    things.reverse()


@seen_as("table['a'].k")
def dict_given_as_arguments():
    table = {"a": Thing(k=2.0)}
    yield lambda x: (lambda **k: x * k["a"].k)(**table)
    table["a"].k = 3.0


@seen_as("table['a'].k")
def items_of_a_dict():
    table = {"a": Thing(k=2.0)}
    yield lambda x: functools.reduce(lambda h, pair: h * pair[1].k, table.items(), x)
    table["a"].k = 3.0


@seen_as("table['k']")
def union_of_dicts():
    table = {"k": 2.0}
    yield lambda x: x * ({} | table)["k"]
    table["k"] = 3.0


@seen_as("table['f']")
def item_of_a_copy():
    table = {"f": lambda x: x * 2}
    yield lambda x: dict(table).pop("f")(x)
    table["f"] = lambda x: x * 3


@seen_as("pair[0]['k']")
def dict_in_a_tuple():
    pair = ({"k": 2.0},)
    yield lambda x: x * pair[0]["k"]
    pair[0]["k"] = 3.0


@seen_as("things[0].k")
def zip_and_enumerate():
    things = [Thing(k=2.0), Thing(k=3.0)]
    yield lambda x: [x * p.k for i, (p, q) in enumerate(zip(things, things, strict=True))][0]  # noqa: RUF015
    things[0].k = 3.0


@seen_as("'k' in table")
def key_error_that_is_caught():
    table = {}

    def f(x):
        try:
            return x * table["k"]
        except KeyError:
            return x

    yield f
    table["k"] = 2.0


@seen_as("table.default")
def missing_key():
    class Table(dict):
        def __missing__(self, key):
            return self.default

    table = Table()
    table.default = 2.0
    yield lambda x: x * table["k"]
    table.default = 3.0


@seen_as("maps.maps[1]['k']")
def chain_of_maps():
    maps = collections.ChainMap({}, {"k": 2.0})
    yield lambda x: x * maps["k"]
    maps.maps[1]["k"] = 3.0


@seen_as("what is in view")
def view_that_is_kept():
    table = {"a": 2.0}
    view = table.values()
    yield lambda x: x * sum(view)
    table["b"] = 3.0


@seen_as("what is in view")
def view_of_items_that_is_kept():
    table = {"a": 2.0}
    view = table.items()
    yield lambda x: x * [v for k, v in view][0]  # noqa: RUF015
    table["a"] = 3.0


@seen_as("what is in data")
def memory_of_bytes():
    data = bytearray(b"ab")
    yield lambda x: x * memoryview(data)[0]
    data[0] = 3


@seen_as("what is in array")
def array_of_objects():
    array = np.array([Thing(k=2.0)], dtype=object)
    yield lambda x: x * array[0].k
    array[0].k = 3.0


@seen_as("k[0]")
def default_that_is_a_list():
    def scaled(x, *, k=[2.0]):  # noqa: B006
        return x * k[0]

    yield lambda x: scaled(x)
    scaled.__kwdefaults__["k"][0] = 3.0


# --- names that are looked through --------------------------------------------------------------
@seen_as("hasattr(module, 'flag')")
def attribute_that_a_module_has():
    module = types.ModuleType("module")
    yield lambda x: x * (2 if hasattr(module, "flag") else 3)
    module.flag = 1


@seen_as("module.table['k']")
def getattr_of_a_module():
    module = types.ModuleType("module")
    module.table = {"k": 2.0}
    module.__getattr__ = lambda name: module.table[name]
    yield lambda x: x * module.k
    module.table["k"] = 3.0


@seen_as("thing.k")
def item_of_vars():
    thing = Thing(k=2.0)
    yield lambda x: x * vars(thing)["k"]
    thing.k = 3.0


@seen_as("the names in thing")
def number_of_vars():
    thing = Thing(k=2.0)
    yield lambda x: x * len(vars(thing))
    thing.z = 1


@seen_as("thing.k")
def get_of_the_dictionary():
    thing = Thing(k=2.0)
    yield lambda x: x * thing.__dict__.get("k")
    thing.k = 3.0


@seen_as("dir(thing)")
def names_of_an_object():
    thing = Thing(k=2.0)
    yield lambda x: x * len(dir(thing))
    thing.z = 1


@seen_as("the names in Made")
def names_of_a_class():
    class Made:
        pass

    yield lambda x: x * len([k for k in vars(Made) if k[0] != "_"])
    Made.k = 1


@seen_as("the subclasses of Made")
def subclasses():
    class Made:
        pass

    yield lambda x: x * len(Made.__subclasses__())
    KEPT.append(type("More", (Made,), {}))


@seen_as("isinstance(thing, Abstract)")
def abstract_class_that_counts_others():
    class Abstract(abc.ABC):  # noqa: B024
        pass

    class Other:
        pass

    thing = Other()
    yield lambda x: x * (2 if isinstance(thing, Abstract) else 3)
    Abstract.register(Other)


@seen_as("asked.__doc__")
def text_that_describes():
    def asked():
        """Of two words."""

    yield lambda x: x * len(asked.__doc__)
    asked.__doc__ = "Other"


@seen_as("len(sys.argv)")
def arguments_of_the_program():
    yield lambda x: x * len(sys.argv)
    sys.argv.append("more")


@seen_as("os.environ._data[b'SDBR_TEST_OUTSIDE']")
def variable_of_the_environment():
    os.environ["SDBR_TEST_OUTSIDE"] = "2"
    yield lambda x: x * float(os.environ["SDBR_TEST_OUTSIDE"])
    os.environ["SDBR_TEST_OUTSIDE"] = "3"


# --- what compiled code gets --------------------------------------------------------------------
@seen_as("thing.k")
def attrgetter():
    thing = Thing(k=2.0)
    yield lambda x: x * operator.attrgetter("k")(thing)
    thing.k = 3.0


@seen_as("what is in thing")
def methodcaller():
    thing = Thing(k=2.0)
    yield lambda x: operator.methodcaller("times", x)(thing)
    thing.k = 3.0


@seen_as("what is in thing")
def text_by_percent():
    thing = Thing(k=2)
    yield lambda x: x * len("%s" % thing)  # noqa: UP031
    thing.k = 333


@seen_as("what is in thing")
def text_by_f_string():
    thing = Thing(k=2)
    yield lambda x: x * len(f"{thing}")
    thing.k = 333


@seen_as("what is in thing")
def text_by_f_string_with_a_width():
    thing = Thing(k=2)
    yield lambda x: x * len(f"{thing!s:>3}{[thing]!r:>2}")
    thing.k = 333


@seen_as("what is in thing")
def text_by_format():
    thing = Thing(k=2)
    yield lambda x: x * int("{0.k}".format(thing))  # noqa: UP030, UP032
    thing.k = 3


@seen_as("what is in config")
def text_of_json():
    config = {"k": [1, {"a": 2}]}
    yield lambda x: x * len(json.dumps(config))
    config["k"][1]["b"] = 1


@seen_as("thing.k")
def vectorized():
    thing = Thing(k=2.0)
    yield lambda x: x * np.vectorize(lambda v: v * thing.k)(np.ones(2)).astype("f")
    thing.k = 3.0


@seen_as("what is in things[0]")
def deep_copy():
    things = [Thing(k=2.0)]
    yield lambda x: x * copy.deepcopy(things)[0].k
    things[0].k = 3.0


@seen_as("what is in things[0]")
def shallow_copy():
    things = [Thing(k=2.0)]
    yield lambda x: x * copy.copy(things[0]).k
    things[0].k = 3.0


@seen_as("reference().k")
def weak_reference():
    thing = Thing(k=2.0)
    reference = weakref.ref(thing)
    yield lambda x: x * reference().k
    thing.k = 3.0
    yield


@seen_as("method().k")
def weak_method():
    thing = Thing(k=2.0)
    method = weakref.WeakMethod(thing.times)
    yield lambda x: method()(x)
    thing.k = 3.0
    yield


@seen_as("len(things.data)")
def size_of_a_weak_set():
    kept = [Thing()]
    things = weakref.WeakSet(kept)
    yield lambda x: x * len(things)
    kept.append(Thing())
    things.add(kept[-1])


@seen_as("what context gives")
def precision_of_decimals():
    yield lambda x: x * float(decimal.Decimal(1) / 3)
    decimal.getcontext().prec = 5


@seen_as("what numpy.get_printoptions gives")
def print_options():
    yield lambda x: x * np.get_printoptions()["precision"]
    np.set_printoptions(precision=3)


@seen_as("numpy.errstate or the filters of warnings")
def errors_of_floats():
    yield lambda x: x + 1
    np.seterr(all="raise")


# --- what is looked for by Python itself --------------------------------------------------------
@seen_as("Made.__bool__")
def truth_that_a_class_gets_later():
    class Made:
        pass

    made = Made()
    yield lambda x: x * (2 if made else 3)
    Made.__bool__ = lambda self: False


@seen_as("Made.__getattr__")
def getattr_that_a_class_gets_later():
    class Made:
        pass

    made = Made()

    def f(x):
        try:
            return x * made.k
        except AttributeError:
            return x

    yield f
    Made.__getattr__ = lambda self, name: 3.0


@seen_as("Made.__ne__")
def comparison_that_a_class_gets_later():
    class Made:
        pass

    one, other = Made(), Made()
    yield lambda x: x * (2 if one != other else 3)
    Made.__ne__ = lambda self, thing: False


@seen_as("type(made).__call__")
def call_that_a_class_gets_later():
    class Made:
        pass

    made = Made()
    yield lambda x: x * (2 if callable(made) else 3)
    Made.__call__ = lambda self: 2.0


@seen_as("Made.__add__")
def operator_that_is_a_lambda():
    class Made:
        __add__ = lambda self, x: x * 2  # noqa: E731

    made = Made()
    yield lambda x: made + x
    Made.__add__ = lambda self, x: x * 3


@seen_as("Made.__mul__")
def operator_whose_self_is_in_a_cell():
    class Made:
        k = 2.0

        def __mul__(self, x):
            return x * sum(self.k for _ in range(1))

    made = Made()
    yield lambda x: made * x
    Made.__mul__ = lambda self, x: x * 3


@seen_as("Made.__class_getitem__")
def item_of_a_class():
    class Made:
        def __class_getitem__(cls, key):
            return 2.0

    yield lambda x: x * Made["k"]
    Made.__class_getitem__ = classmethod(lambda cls, key: 3.0)


@seen_as("the code and defaults of get")
def default_of_a_property():
    def get(self, k=2.0):
        return k

    thing = type("Made", (), {"k": property(get)})()
    yield lambda x: x * thing.k
    get.__defaults__ = (3.0,)


@seen_as("the code and defaults of scaled")
def default_that_is_changed_in_place():
    def scaled(x, *, k=2.0):
        return x * k

    yield lambda x: scaled(x)
    scaled.__kwdefaults__["k"] = 3.0


@seen_as("thing.k")
def getattribute_of_the_users():
    class Made:
        def __getattribute__(self, name):
            return super().__getattribute__(name)

    thing = Made()
    thing.k = 2.0
    yield lambda x: x * thing.k
    thing.k = 3.0


@seen_as("numbers[0]")
def item_of_a_superclass():
    class Numbers(list):
        def __getitem__(self, i):
            return super().__getitem__(i) * 2

    numbers = Numbers([1.0])
    yield lambda x: x * numbers[0]
    numbers[0] = 3.0


@seen_as("Made.k")
def attribute_that_the_class_of_a_new_object_gets():
    class Made:
        def __getattr__(self, name):
            return 2.0

    yield lambda x: x * Made().k
    Made.k = 3.0


@seen_as("Made.flag")
def attribute_that_a_new_object_has():
    class Made:
        pass

    yield lambda x: x * (2 if hasattr(Made(), "flag") else 3)
    Made.flag = 1


@seen_as("super(Below, below).k")
def attribute_that_a_superclass_has():
    class Above:
        pass

    class Below(Above):
        pass

    below = Below()
    yield lambda x: x * (2 if hasattr(super(Below, below), "k") else 3)
    Above.k = 1


@seen_as("made.k")
def class_made_by_a_library():
    made = dataclasses.make_dataclass("C", ["n"])
    made.k = 2.0
    yield lambda x: x * made(1).k
    made.k = 3.0


@seen_as("the bases of Made")
def bases_of_a_class():
    class One:
        pass

    class Other:
        pass

    class Above(One):
        pass

    class Made(Above):
        pass

    things = [Made()]
    yield lambda x: x * (2 if isinstance(things[0], One) else 3)
    Above.__bases__ = (Other,)


@seen_as("isinstance(thing, Abstract)")
def pattern_of_an_abstract_class():
    class Abstract(abc.ABC):  # noqa: B024
        pass

    class Other:
        pass

    thing = Other()

    def f(x):
        match thing:
            case Abstract():
                return x * 2
        return x

    yield f
    Abstract.register(Other)


@seen_as("sdbr_test_outside")
def module_that_is_not_there():
    sys.modules["sdbr_test_outside"] = None

    def f(x):
        try:
            import sdbr_test_outside  # noqa: F401
        except ImportError:
            return x
        return x * 2

    yield f
    sys.modules["sdbr_test_outside"] = types.ModuleType("sdbr_test_outside")


# --- which object it is -------------------------------------------------------------------------
class Plain:
    """Is hashed and compared by identity."""


@seen_as("id(holder.key)")
def key_that_is_an_object():
    one, other = Plain(), Plain()
    holder, table = Thing(key=one), {one: 2.0, other: 3.0}
    yield lambda x: x * table[holder.key]
    holder.key = other


@seen_as("id(pair.b)")
def objects_of_a_set():
    one, other = Thing(), Thing()
    pair = Thing(a=one, b=other)
    yield lambda x: x * len({pair.a, pair.b})
    pair.b = one


@seen_as("id(things[1])")
def objects_that_are_made_a_set():
    things = [Plain(), Plain()]
    yield lambda x: x * len(set(things))
    things[1] = things[0]


@seen_as("what is in holder.thing")
def place_of_an_object_in_a_list():
    things = [Thing(), Thing()]
    holder = Thing(thing=things[1])
    yield lambda x: x * things.index(holder.thing)
    holder.thing = things[0]


@seen_as("id(pair.b.__self__)")
def methods_that_are_compared():
    one, other = Thing(), Thing()
    pair = Thing(a=one.times, b=other.times)
    yield lambda x: x * (2 if pair.a == pair.b else 3)
    pair.b = one.times


@seen_as("pair.b is pair.a")
def object_that_the_call_may_have_written_to():
    pair = Thing(a=Thing(k=1.0), b=Thing(k=2.0))

    def f(x):
        pair.a.k = 5.0
        return x * pair.b.k

    yield f
    pair.a = pair.b


@seen_as("table[<")
def item_beside_one_that_the_call_writes():
    one, other = Plain(), Plain()
    table = {one: 1.0, other: 2.0}

    def f(x):
        table[one] = 5.0
        return x * table[other]

    yield f
    table[other] = 3.0


@seen_as("len(numbers)")
def item_that_the_call_writes_to_a_list():
    numbers = [1, 2]

    def f(x):
        try:
            numbers[1] = 5
        except IndexError:
            return x
        return x * 2

    yield f
    numbers.pop()


# --- values that are equal and not the same -----------------------------------------------------
@seen_as("thing.kinds")
def frozenset_of_numbers():
    thing = Thing(kinds=frozenset([1, 2]))
    yield lambda x: x * (2 if 1 in thing.kinds else 3)
    thing.kinds = frozenset([3])


@seen_as("thing.k")
def digits_of_a_decimal():
    thing = Thing(k=decimal.Decimal("1.0"))
    yield lambda x: x * len(str(thing.k))
    thing.k = decimal.Decimal("1.00")


@seen_as("thing.kinds")
def union_of_classes():
    thing = Thing(k=1, kinds=int | float)
    yield lambda x: x * (2 if isinstance(thing.k, thing.kinds) else 3)
    thing.kinds = str | bytes


@seen_as("thing.array.flags")
def order_of_an_array():
    thing = Thing(array=np.ones((2, 3)))
    yield lambda x: x * (2 if thing.array.flags.c_contiguous else 3)
    thing.array = np.ones((2, 3), order="F")


# --- what compiled code gets, and when ----------------------------------------------------------
@seen_as("what is in thing")
def list_that_is_given_twice():
    thing = {"k": 2}

    def f(x):
        made = [1]
        n = len(json.dumps(made))
        made.append(thing)
        return x * (n + len(json.dumps(made)))

    yield f
    thing["k"] = 333


@seen_as("what is in thing")
def text_of_a_list_within_itself():
    thing = [1]

    def f(x):
        made = [thing]
        made.append(made)
        return x * len(f"{made}")

    yield f
    thing.append(2)


@seen_as("thing.k")
def slots_of_a_new_object():
    class Made:
        __slots__ = ("a",)

    thing = Thing(k=2.0)

    def f(x):
        made = Made()
        made.a = thing
        return x * operator.attrgetter("a.k")(made)

    yield f
    thing.k = 3.0


@seen_as("what is in made")
def attribute_of_the_class_of_what_is_given():
    class Made:
        k = 2

    made = Made()
    yield lambda x: x * len("{0.k}".format(made))  # noqa: UP030, UP032
    Made.k = 333


@seen_as("what is in things[0]")
def largest_by_a_compiled_key():
    things = [Thing(k=1.0, w=5.0), Thing(k=2.0, w=7.0)]
    yield lambda x: x * max(things, key=operator.attrgetter("k")).w
    things[0].k = 9.0


@seen_as("what is in lists")
def lengths_of_lists():
    lists = [[1], [2, 3]]
    yield lambda x: x * sum(map(len, lists))
    lists[0].append(1)


@seen_as("what is in things[0]")
def generator_for_a_compiled_function():
    things = [Thing(k=1.0)]
    yield lambda x: x * sum(map(operator.attrgetter("k"), (o for o in things)))
    things[0].k = 3.0


@seen_as("what is in things[0].k")
def results_of_a_key():
    things = [Thing(k=[2.0], w=5.0), Thing(k=[3.0], w=7.0)]
    yield lambda x: x * sorted(things, key=lambda o: o.k)[0].w
    things[0].k[0] = 9.0


@seen_as("what is in made.lists[0]")
def lists_that_an_iterable_of_the_users_gives():
    class Made:
        def __iter__(self):
            return iter(self.lists)

    made = Made()
    made.lists = [[1.0]]
    yield lambda x: x * sum(sum(made, []))  # noqa: RUF017
    made.lists[0][0] = 3.0


@seen_as("pairs[0][1]")
def pairs_that_become_a_dict():
    pairs = [["k", 2.0]]
    yield lambda x: x * dict(pairs)["k"]
    pairs[0][1] = 3.0


@seen_as("id(holder.key[0])")
def key_that_is_a_tuple_of_objects():
    one, other = Plain(), Plain()
    holder, table = Thing(key=(one, 1)), {(one, 1): 2.0, (other, 1): 3.0}
    yield lambda x: x * table[holder.key]
    holder.key = (other, 1)


@seen_as("len(lists[1])")
def whether_any_is_true():
    lists = [[], []]
    yield lambda x: x * (2 if any(lists) else 3)
    lists[1].append(1)


@seen_as("what is in get.__self__")
def iterator_that_calls():
    table = {}
    get = table.__len__
    yield lambda x: x * (2 if next(iter(get, 0), None) is None else 3)
    table["k"] = 1


@seen_as("what is in array")
def sum_of_an_array_of_objects():
    array = np.array([1, 2], dtype=object)
    yield lambda x: x * array.sum()
    array[0] = 5


@seen_as("what is in proxy")
def dict_behind_a_proxy():
    table = {"k": [2]}
    proxy = types.MappingProxyType(table)
    yield lambda x: x * len(f"{proxy}")
    table["k"].append(3)


@seen_as("what is in function")
def function_of_a_vectorize():
    function = np.vectorize(lambda v: v * 2.0)
    yield lambda x: x * function(np.ones(2)).astype("f")
    function.pyfunc = lambda v: v * 3.0


@seen_as("thing.k")
def cached_property_of_a_new_object():
    class Cached:
        @functools.cached_property
        def k(self):
            return thing.k

    thing = Thing(k=2.0)
    yield lambda x: x * Cached().k
    thing.k = 3.0


@seen_as("dynamic: datetime.now gives something else")
def date_of_now():
    yield lambda x: x * datetime.datetime.now().timestamp()


# --- Chainer ------------------------------------------------------------------------------------
@seen_as("link.W.decay")
def attribute_of_a_parameter():
    link = L.Linear(2, 2)
    link.W.decay = 2.0
    yield lambda x: link(x) * link.W.decay
    link.W.decay = 3.0


@seen_as("link.W.name")
def name_of_a_parameter():
    link = L.Linear(2, 2)
    yield lambda x: link(x) * len(link.W.name)
    link.W.name = "another"


@seen_as("link.W")
def parameter_that_is_replaced():
    link = L.Linear(2, 2)
    yield lambda x: link(x)
    link.W = chainer.Parameter(np.ones((2, 2), "f"))


@seen_as("link.W.update_rule.enabled")
def whether_a_link_is_updated():
    link = L.Linear(2, 2)
    chainer.optimizers.SGD().setup(link)
    yield lambda x: link(x) * (2.0 if link.update_enabled else 3.0)
    link.disable_update()


@seen_as("variable.name")
def name_of_a_variable():
    variable = chainer.Variable(np.ones((2, 2), "f"))
    yield lambda x: x * len(variable.name or "a")
    variable.name = "another"


@seen_as("number.s")
def attribute_of_a_float():
    number = type("Number", (float,), {})(2.0)
    number.s = 2.0
    yield lambda x: x * number.s
    number.s = 3.0


@seen_as("array.s")
def attribute_of_an_array():
    array = np.ones(2, "f").view(type("Array", (np.ndarray,), {}))
    array.s = 2.0
    yield lambda x: x * array.s
    array.s = 3.0


@seen_as("'user_k' in chainer.config._local.__dict__")
def entry_of_the_configuration():
    yield lambda x: x * (getattr(chainer.config, "user_k", None) or 2.0)
    chainer.config.user_k = 3.0


# --- what nobody can compare --------------------------------------------------------------------
@seen_as("dynamic: threading.start")
def read_in_a_thread():
    def f(x):
        thread = threading.Thread(target=int)
        thread.start()
        thread.join()
        return x

    yield f


@seen_as("dynamic: waits for other threads")
def read_in_a_pool():
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()
        yield lambda x: x * pool.submit(lambda: 2.0).result()


@seen_as("dynamic: moves numbers")
def generator_that_began_before():
    numbers = (k for k in range(9))
    next(numbers)
    yield lambda x: x * next(numbers)


@seen_as("dynamic: goes through a generator")
def generator_that_did_not_begin():
    numbers = (k for k in range(9))
    yield lambda x: x * sum(numbers)


@seen_as("dynamic: looks into frames: f_back")
def variable_of_the_caller():
    yield lambda x: x * len(sys._getframe().f_back.f_code.co_name)


@seen_as("dynamic: moves numbers")
def cycle():
    numbers = itertools.cycle([1.0, 2.0])
    yield lambda x: x * next(numbers)


@seen_as("dynamic: moves numbers")
def count():
    numbers = itertools.count(1)
    yield lambda x: x * next(numbers)


@seen_as("variable()")
def context_variable():
    variable = contextvars.ContextVar("variable", default=2.0)
    yield lambda x: x * variable.get()
    variable.set(3.0)


@seen_as("cached(1)")
def cache_of_results():
    base = [2.0]
    cached = functools.lru_cache(None)(lambda n: n * base[0])
    cached(1)
    yield lambda x: x * cached(1)
    base[0] = 3.0
    cached.cache_clear()


@seen_as("dynamic: calls _asyncio.")
def event_loop():
    async def coroutine():
        await asyncio.sleep(0)
        return 2.0

    yield lambda x: x * asyncio.run(coroutine())


@seen_as("dynamic: asks for len(sink) after it has written to it")
def read_in_a_finalizer():
    class Finalized:
        def __del__(self):
            sink.append(2.0)

    sink: list = []

    def f(x):
        thing = Finalized()
        del thing
        return x * sink[-1]

    yield f
