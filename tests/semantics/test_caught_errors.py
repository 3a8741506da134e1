"""Row 20: errors that the code of a call would catch itself; found in its byte code."""

from __future__ import annotations

# ruff: noqa: SIM105 (what is looked at is the byte code of each way to write it)
import contextlib
import sys

import sdbr
from sdbr.trace.code.catching import may_catch

import chainer
import numpy as np
import pytest
from chainer import functions as F

from tests.leaks.harness import FOLDER, judge, names_in
from tests.leaks.mends import OFF
from tests.tolerances import DOUBLE

SEEN: list = []


class Errors:
    """Names with a dot."""

    key, index = KeyError, IndexError


def ask():
    """Note whether an IndexError would be caught where this is called."""
    SEEN.append(may_catch(sys._getframe(1), (IndexError,)))


def nothing_around():
    ask()


def inside_and_behind():
    try:
        ask()
    except IndexError:
        pass
    ask()


def others():
    try:
        ask()
    except (KeyError, ValueError):
        pass


def a_base_of_it_in_a_tuple():
    try:
        ask()
    except (KeyError, LookupError) as error:
        print(error)


def everything():
    try:
        ask()
    except:
        raise


def only_finally():
    try:
        ask()
    finally:
        print(end="")
        ask()


def finally_within_except():
    try:
        try:
            ask()
        finally:
            print(end="")
    except Exception:
        pass


def the_outer_one():
    try:
        try:
            ask()
        except ZeroDivisionError as error:
            print(error)
    except Exception:
        pass


def a_block_in_between():
    try:
        with contextlib.nullcontext() as x:
            ask()
            print(x, end="")
    except Exception:
        pass


def only_blocks():
    with contextlib.nullcontext() as a, contextlib.nullcontext():
        for _ in [a]:
            ask()
            continue


def with_a_dot():
    try:
        ask()
    except Errors.key:
        pass
    try:
        ask()
    except Errors.index:
        pass


def out_of_a_loop():
    try:
        for k in range(2):
            if k == 1:
                ask()
                return
    except IndexError:
        return
    finally:
        ask()


def in_an_except_and_an_else():
    for _ in range(1):
        try:
            _ = 1 / 0
        except ZeroDivisionError:
            ask()
    try:
        pass
    except IndexError:
        pass
    else:
        ask()
    try:
        try:
            _ = 1 / 0
        except ZeroDivisionError:
            ask()
    except IndexError:
        pass


def in_a_local_name():
    kinds = (IndexError, KeyError)
    try:
        return ask()
    except kinds:
        pass


def of_a_call():
    def kind():
        return IndexError

    try:
        ask()
    except kind():
        pass


def the_third_clause():
    try:
        ask()
    except KeyError:
        pass
    except ValueError as error:
        raise RuntimeError from error
    except Exception:
        pass


def no_clause():
    try:
        ask()
    except KeyError:
        pass
    except ValueError as error:
        raise RuntimeError from error
    else:
        pass
    finally:
        pass


def in_a_generator():
    def generator():
        try:
            yield ask()
        except IndexError:
            pass

    list(generator())


@pytest.mark.parametrize(
    ("function", "want"),
    [
        (nothing_around, [False]),
        (inside_and_behind, [True, False]),
        (others, [False]),
        (a_base_of_it_in_a_tuple, [True]),
        (everything, [True]),
        (only_finally, [False, False]),
        (finally_within_except, [True]),
        (the_outer_one, [True]),
        (a_block_in_between, [True]),
        (only_blocks, [False]),
        (with_a_dot, [False, True]),
        (out_of_a_loop, [True, False]),
        (in_an_except_and_an_else, [False, False, True]),
        (in_a_local_name, [True]),
        (of_a_call, [True]),
        (the_third_clause, [True]),
        (no_clause, [False]),
        (in_a_generator, [True]),
    ],
)
def test_what_is_caught(function, want):
    SEEN.clear()
    function()
    assert want == SEEN


PROGRAMS = FOLDER / "errors.py"
DYNAMIC = "p_18_wild_at_first"  # raises while it is traced
# Errors of the others reach the caller, or there are none.
CAUGHT = [
    n
    for n in names_in(PROGRAMS)
    if n not in (DYNAMIC, "p_18_caught_by_the_caller", "p_18_other_errors_caught")
]


@pytest.mark.parametrize("name", names_in(PROGRAMS))
def test_programs(name):
    verdict = judge(PROGRAMS, name)
    assert verdict.word == ("dynamic" if name == DYNAMIC else "right"), verdict
    if name == DYNAMIC:
        assert "errors.py:" in verdict.warnings[0] and "Catch errors outside" in verdict.warnings[0]
    elif name in CAUGHT and name != "p_18_raised_again_as_another":
        assert "the call has caught" in verdict.warnings[0]


@pytest.mark.parametrize("name", names_in(PROGRAMS))
def test_programs_that_are_audited(name):
    assert judge(PROGRAMS, name, audit=1e9).word == ("dynamic" if name == DYNAMIC else "right")


@pytest.mark.parametrize("name", CAUGHT)
def test_the_mend_is_what_makes_them_right(name):
    with OFF[18]():
        assert judge(PROGRAMS, name).word in ("error", "silent")


def test_constant_indices_and_other_functions_stay_static():
    @sdbr.static_graph(on_dynamic="raise")
    def f(x):
        try:
            return F.get_item(F.relu(x), (slice(None), [0, 2])) + F.sum(x)
        except Exception:
            return x

    for k in range(3):
        x = np.full((2, 3), k - 1, "f")
        assert np.array_equal(f(x).array, np.maximum(x, 0)[:, [0, 2]] + x.sum())
    assert f.schedule_manager.statistics.replays == 2


def test_a_variable_that_is_iterated_over_is_static():
    """Python ends such a loop by an IndexError, which shapes decide about."""

    def total(x):
        return sum(part * (i + 1) for i, part in enumerate(F.tanh(x)))

    static = sdbr.static_graph(total)
    for k in range(4):
        x = np.random.RandomState(k).randn(3, 4)
        want, found = chainer.Variable(x), chainer.Variable(x)
        y = static(found)
        F.sum(y).backward()
        F.sum(total(want)).backward()
        np.testing.assert_allclose(y.array, total(want).array, rtol=DOUBLE)
        np.testing.assert_allclose(found.grad, want.grad, rtol=DOUBLE)
    assert static.schedule_manager.statistics.replays == 3
    static(chainer.Variable(np.ones((2, 4))))
    assert static.schedule_manager.statistics.traces == 2


def test_an_index_of_numpy_out_of_bounds_is_dynamic():
    def first(x, i):
        try:
            return F.tanh(x)[i]
        except IndexError:
            return F.tanh(x)[0]

    static = sdbr.static_graph(first)
    for i in (7, 0, 7):
        y = static(np.ones((3, 4), "f"), np.array([i]))
        assert (y.array == np.tanh(np.float32(1))).all()
    assert static.schedule_manager.statistics.replays == 0
