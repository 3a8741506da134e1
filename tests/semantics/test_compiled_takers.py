"""Row 10: compiled code takes a number past the methods of its class; it is that of each call."""

import warnings

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
]  # fmt: skip
FOLLOWED = [
    ("import math", "math.ldexp(f, 2)"),
    ("import math", "math.perm(3, 2) * f"),
    ("", "f // 0.1 + f % 3 + 2 ** f"),
]


def compared(number, imports, expression) -> int:
    """How many calls were replays, each compared with define-by-run."""
    argument = ", f" if number == "argument" else ""
    line = NUMBERS[number] or "pass"
    code = f"{imports}\ndef g(x{argument}):\n    {line}\n    return x * ({expression})\n"
    names = {"__name__": "of_a_user"}
    exec(code, names)
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


@pytest.mark.parametrize("number", [number for number in NUMBERS if number != "argument"])
@pytest.mark.parametrize(("imports", "expression"), FOLLOWED)
def test_what_is_followed_replays(imports, expression, number):
    assert compared(number, imports, expression) >= 4
