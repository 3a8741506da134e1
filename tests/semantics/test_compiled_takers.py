"""Row 10: compiled code takes a number past the methods of its class; it is that of each call."""

import collections
import contextvars
import json
import warnings
from array import array
from unittest import mock

import sdbr

import numpy as np
import pytest

from tests.tolerances import DOUBLE_ROUNDINGS

NUMBERS = {
    "float(x)": "f = float(x.mean())",
    "x.item()": "f = x.mean().item()",
    "x.tolist()": "f = x.tolist()[0]",
    "argument": "",
}
SET = """import ctypes
from array import array
def put(f):
    s = {0}
    {1} = f
    return {1}
"""
OF_USERS = """import json, math, struct
class T:
    def __init__(self, v):
        self.v = v
    def __float__(self):
        return self.v
"""
TAKERS = [
    ("from decimal import Decimal", "float(Decimal(f))"),
    ("import decimal", "float(decimal.Decimal(f))"),
    ("from datetime import timedelta", "timedelta(seconds=f).total_seconds()"),
    ("import datetime", "datetime.timedelta(f) / datetime.timedelta(1)"),
    ("from array import array", "array('d', [f])[0]"),
    ("from struct import Struct", "Struct('d').unpack(Struct('d').pack(f))[0]"),
    ("from struct import Struct; packed = Struct('d')", "packed.unpack(packed.pack(f))[0]"),
    ("from struct import pack, unpack", "unpack('d', pack('d', f))[0]"),
    ("from ctypes import c_double", "c_double(f).value"),
    ("from statistics import fmean", "fmean([f, 1.0])"),
    ("from statistics import NormalDist", "NormalDist(f, 1.0).cdf(0.3)"),
    ("from json import dumps, loads", "loads(dumps(f))"),
    ("from cmath import phase", "phase(complex(f, 1))"),
    ("import time", "time.gmtime(abs(f) * 1e6).tm_sec * 1.0"),
    ("from time import gmtime", "gmtime(abs(f) * 1e6).tm_sec * 1.0"),
    ("import sqlite3; base = sqlite3.connect(':memory:')",
     "base.execute('select ?', (f,)).fetchone()[0]"),
    ("import marshal", "marshal.loads(marshal.dumps(f))"),
    ("", "(2.0).__mul__(f)"),
    ("", "(2.0).__rsub__(f)"),
    ("", "(0.1).__lt__(f) * 1.0"),
    ("", "abs(1j * f) + abs(f + 1j) + (1j == f)"),
    ("", "abs(sum([1j, f]))"),
    ("class C(complex): pass", "abs(C(1) * f)"),
    ("class F(float): pass", "F(2.0) * f"),
    ("from math import sqrt; from functools import partial; h = partial(sqrt)", "h(abs(f))"),
    ("from math import sqrt\nclass O: s = sqrt\no = O()", "o.s(abs(f))"),
    ("from math import sin", "sum(map(sin, [f, 2.0]))"),
    ("from decimal import Decimal", "float(max([f, Decimal(0.1)]))"),
    ("from decimal import Decimal", "(Decimal(0.1) < f) * 1.0"),
    ("import operator", "abs(operator.mul(1j, f))"),
    ("from datetime import timedelta", "(timedelta(seconds=2) * f).total_seconds()"),
    ("from array import array", "(lambda a: (a.append(f), a[0])[1])(array('d'))"),
    ("from array import array\nA = array('d', [0.0])", "(A.__setitem__(0, f), A[0])[1]"),
    (SET.format("memoryview(bytearray(8)).cast('d')", "s[0]"), "put(f)"),
    (SET.format("array('d', [0.0])", "s[0]"), "put(f)"),
    (SET.format("(ctypes.c_double * 2)()", "s[0]"), "put(f)"),
    (SET.format("ctypes.c_double()", "s.value"), "put(f)"),
    ("import json", "json.loads(json.dumps({'a': [1, {'b': f}]}))['a'][1]['b']"),
    ("from marshal import dumps, loads", "loads(dumps(f))"),
    ("", "float('%.3f' % f)"),
    ("import numpy as np", "np.ma.array([f, 1.0]).sum()"),
    ("", "abs(sum([f, 1.0], 1j)) + abs(sum([f], start=0j))"),
    ("", "(f in (0.1, 1j)) + (f in [1j])"),
    ("import math", "math.fsum(f * k for k in (1.0, 2.0))"),
    ("from array import array", "array('d', map(float, [f]))[0]"),
    ("class F(float): pass", "divmod(F(5.0), abs(f) + 1)[1]"),
    ("import json", "json.loads(json.dumps([object()], default=lambda o: f * 2))[0]"),
    ("from math import sin", "list(map(sin, [f]))[0]"),
    ("import operator", "abs(list(map(operator.mul, [1j], [f]))[0])"),
    ("from decimal import Decimal", "([Decimal(0.1)] < [f]) * 1.0"),
    (OF_USERS, "float(T(f)) + complex(T(f)).real"),
    (OF_USERS, "struct.unpack('d', struct.pack('d', T(f)))[0] + math.floor(T(f))"),
    (OF_USERS, "json.loads(json.dumps([T(f)], default=lambda o: o.v))[0]"),
]  # fmt: skip
#: Of whole numbers, which are no ints to code that does not ask.
WHOLE = [
    ("import json", "json.loads(json.dumps({'a': [n], 'b': (n, 2)}))['a'][0]"),
    ("import json", "json.loads(json.dumps([n], indent=1))[0] + len(json.dumps({n: 1}))"),
    ("from decimal import Decimal as D", "float(D(n) + D(1) * n + round(D('1.2345'), n))"),
    ("from decimal import Decimal as D", "float(D(*[n]) ** n)"),
    ("from array import array", "array('d', map(float, [n]))[0]"),
    ("import json", "json.loads(json.dumps([object()], default=lambda o: n))[0] * 1.0"),
    ("", "round(float(x.sum()), n) + round(x.sum().item(), ndigits=n - 1)"),
    ("import math", "math.ldexp(float(x.sum()), n) + math.ldexp(1.5, n)"),
    ("from datetime import timedelta as t", "(t(seconds=n) * n + n * t(hours=n)).total_seconds()"),
    ("from datetime import timedelta as t", "t(**{'days': n}) / t(days=n + 1)"),
    ("from statistics import mean, stdev", "mean([n, 1]) + stdev([n, 1.5, 2])"),
    ("", "len('%*d' % (n + 5, 3)) * 1.0"),
    ("from marshal import dumps, loads", "loads(dumps([n]))[0] * 1.0"),
    ("from functools import partial; from decimal import Decimal", "float(partial(Decimal)(n))"),
    ("", "float.__add__(1.0, n) + int.__add__(1, n) + (7).__sub__(n) + (2.5).__sub__(n)"),
    ("", "sum(map((2).__add__, [n])) + int.bit_length(n)"),
    ("from itertools import groupby", "[k for k, _ in groupby([n, n], key=type)].count(int) * 1.0"),
    (OF_USERS.replace("__float__", "__index__"), "[1, 2, 3, 4, 5][T(n)] + len([0] * T(n)) * 1.0"),
    (OF_USERS.replace("__float__", "__int__"), "int(T(n)) * 1.0"),
]  # fmt: skip
FOLLOWED = [
    ("import math", "math.ldexp(f, 2)"),
    ("import math", "math.perm(3, 2) * f"),
    ("", "f // 0.1 + f % 3 + 2 ** f"),
    ("", "max([f, 0.1]) + sum([f, 1.0]) + abs(f)"),
    ("import operator", "operator.mul(f, 2.0)"),
    ("import json, decimal", "f * 2"),
    ("from itertools import accumulate", "list(accumulate([f, 1.0]))[1]"),
    ("from heapq import nlargest", "nlargest(1, [f, 0.1])[0]"),
    (OF_USERS, "T(f).__float__() * 2"),
    ("", "max([f], key=float) * min([0.5], key=lambda k: f * k)"),
]


def compared(number, imports, expression) -> int:
    """How many calls were replays, each compared with define-by-run."""
    argument = ", f" if number == "argument" else ""
    line = NUMBERS[number] or "pass"
    code = f"{imports}\ndef g(x{argument}):\n    {line}\n    return x * ({expression})\n"
    names = {"__name__": "of_a_user"}
    exec(compile(code, "user.py", "exec"), names)
    static = sdbr.static_graph(names["g"])
    rng = np.random.RandomState(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sdbr.SdbrWarning)
        for _ in range(6):
            x = rng.randn(4) * 0.5
            more = (float(x.mean()),) if argument else ()
            want, got = names["g"](x.copy(), *more), static(x.copy(), *more)
            np.testing.assert_allclose(got, want, DOUBLE_ROUNDINGS, DOUBLE_ROUNDINGS)
    return static.schedule_manager.statistics.replays


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize(("imports", "expression"), TAKERS)
def test_what_takes_a_number_unseen(imports, expression, number):
    compared(number, imports, expression)


@pytest.mark.parametrize(("imports", "expression"), WHOLE)
@pytest.mark.parametrize("number", ["n = int((x > 0).sum())", "n = (x > 0).sum().item()"])
def test_what_takes_a_whole_number(imports, expression, number):
    with mock.patch.dict(NUMBERS, whole=number):
        compared("whole", imports, expression)


HELD = {
    "a list": lambda n: [n],
    "a pair": lambda n: (n, {"n": n}),
    "a named tuple": lambda n: collections.namedtuple("N", "a b")(n, 2),
    "an ordered dict": lambda n: collections.OrderedDict(a=n, b=[n]),
    "a default dict": lambda n: collections.defaultdict(int, a=n),
    "a list of its own": lambda n: type("L", (list,), {})([n]),
    "keys": lambda n: {n: 1, "a": n},
}


@pytest.mark.parametrize("kind", HELD)
def test_what_holds_a_number_stays_what_it_is(kind):
    var = contextvars.ContextVar("var")

    def g(x):
        held = HELD[kind](int((x > 0).sum()))
        var.set(held)
        same = var.get() is held or isinstance(held, tuple)
        return x * 2, json.dumps(held), same, len(held)

    static = sdbr.static_graph(g)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sdbr.SdbrWarning)
        for k in (1.0, 2.0, -1.0, 1.0):
            x = np.float64([k, 1, 1])
            assert static(x)[1:] == g(x)[1:]


def test_a_number_in_a_tuple_with_complex_ones():
    def g(x):
        return x * ((float(x[0]) in (1.0 + 0j, 3j)) + 1)

    static = sdbr.static_graph(g)
    with pytest.warns(sdbr.SdbrWarning, match=r"left NumPy through float"):
        for k in (1.0, 2.0, 1.0, 2.0):
            assert static(np.full(2, k))[0] == g(np.full(2, k))[0]


def test_what_a_compiled_class_is_given_is_read():
    held = [1.0]

    def g(x):
        return x * array("d", held)[0]

    static = sdbr.static_graph(g)
    for k in (1.0, 1.0, 2.0, 2.0):
        held[0] = k
        assert static(np.ones(2))[0] == k
    assert static.schedule_manager.statistics.replays == 2


def test_masked_arrays_are_no_functions():
    empty = np.ma.array([1.0, 2.0])
    static = sdbr.static_graph(lambda x: x * max([], default=empty)[1])
    for k in (1.0, 2.0):
        assert static(np.full(2, k))[0] == 2 * k


def test_arguments_that_a_call_has_kept_are_floats_of_python():
    kept = []

    def g(x, f):
        kept.append(f)
        return x * f

    static = sdbr.static_graph(g)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sdbr.SdbrWarning)
        for f in (1.0, 2.0, 3.0):
            static(np.ones(2), f)
    assert [type(f) for f in kept] == [float] * 3 and kept == [1.0, 2.0, 3.0]


def test_a_number_meets_an_array_in_a_function_of_the_users():
    def g(x):
        n = x.astype(int).sum().item()
        return x * 2, np.vectorize(lambda v: v * n)(np.ones(2))

    static = sdbr.static_graph(g)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sdbr.SdbrWarning)
        for k in (1, 2, 3, 4):
            assert (static(np.full(3, float(k)))[1] == 3 * k).all()


def test_what_a_text_computes_is_followed():
    static = sdbr.static_graph(lambda x, f: x * eval("f * 2", {"f": f}), on_dynamic="raise")
    found = [static(np.ones(2), f)[0] for f in (1.0, 2.0, 3.0)]
    assert found == [2.0, 4.0, 6.0]
    assert static.schedule_manager.statistics.replays == 2


@pytest.mark.parametrize("number", [number for number in NUMBERS if number != "argument"])
@pytest.mark.parametrize(("imports", "expression"), FOLLOWED)
def test_what_is_followed_replays(imports, expression, number):
    assert compared(number, imports, expression) >= 4
