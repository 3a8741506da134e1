"""Patches that come and go, and the version that counts writes to links."""

from __future__ import annotations

import copy
import math
import threading
import weakref

import sdbr  # noqa: F401
from sdbr.compat import LINK_VERSION, PatchSet, link_version

import chainer
import chainer.functions as F
import chainer.link_hooks
import chainer.links as L
import numpy as np
import pytest

from tests.harness.threads import LIMIT, in_threads


class Base:
    def method(self) -> str:
        return "method"

    @property
    def value(self) -> str:
        return "value"


class Derived(Base):
    pass


def loud(original):
    return lambda self: original(self).upper()


def patches_of(*entries) -> PatchSet:
    patches = PatchSet("test")
    for entry in entries:
        patches.register(*entry)
    return patches


def test_patches_are_there_inside_only():
    original = vars(Base)["method"]
    patches = patches_of((Base, "method", loud))
    assert not patches.active
    with patches as entered:
        assert entered is patches and patches.active
        assert Base().method() == "METHOD"
    assert vars(Base)["method"] is original and not patches.active


def test_what_is_in_the_place_of_a_function_of_a_module():
    """By whatever name code has it; methods of classes are found through their classes."""
    patches = patches_of(
        (math, "exp", lambda original: lambda x: -original(x)), (Base, "method", loud)
    )
    own = math.exp
    assert patches.instead_of(own)(0) == -1
    with patches:
        assert patches.instead_of(own) is math.exp is not own
        assert patches.instead_of(math.exp) is None
    assert patches.instead_of(math.log) is patches.instead_of(vars(Base)["method"]) is None


def test_nobody_is_asked_to_find_what_is_in_a_place():
    class Asked:
        def __hash__(self):
            raise AssertionError

        __eq__ = __call__ = __hash__

    patches = patches_of((math, "exp", lambda original: lambda x: -original(x)))
    assert patches.instead_of(Asked()) is patches.instead_of(Asked().__call__) is None


def test_patches_are_reentrant():
    patches = patches_of((Base, "method", loud))
    with patches:
        replacement = vars(Base)["method"]
        with patches:
            assert vars(Base)["method"] is replacement
        assert Base().method() == "METHOD"
    assert Base().method() == "method"


def test_patches_go_after_an_error():
    patches = patches_of((Base, "method", loud))
    with pytest.raises(ZeroDivisionError), patches:
        raise ZeroDivisionError
    assert Base().method() == "method"


def test_property_is_given_as_such():
    def factory(original):
        assert isinstance(original, property)
        return property(lambda self: original.fget(self).upper())

    with patches_of((Base, "value", factory)):
        assert Base().value == "VALUE"
    assert Base().value == "value"


def test_inherited_attribute_is_shadowed_and_bared():
    with patches_of((Derived, "method", loud)):
        assert Derived().method() == "METHOD" and Base().method() == "method"
    assert "method" not in vars(Derived)


def test_two_patches_of_one_attribute_nest():
    def marked(original):
        return lambda self: original(self) + "!"

    with patches_of((Base, "method", loud), (Base, "method", marked)):
        assert Base().method() == "METHOD!"
    assert Base().method() == "method"


def test_a_replacement_is_made_once_of_what_was_there_at_first():
    class Patched(Base):
        def own(self) -> str:
            return "own"

    made = []

    def counted(original):
        made.append(original)
        return loud(original)

    patches = patches_of((Patched, "own", counted), (Patched, "method", counted))
    for _ in range(3):
        with patches:
            assert Patched().own() == "OWN" and Patched().method() == "METHOD"
    assert len(made) == 2

    theirs = lambda self: "theirs"  # noqa: E731
    Patched.own = theirs
    for _ in range(2):
        with patches:
            assert Patched().own() == "THEIRS"
    assert made[2:] == [theirs, theirs] and vars(Patched)["own"] is theirs
    gone = weakref.ref(theirs)
    del theirs, Patched.own
    made.clear()
    assert gone() is None, "a patch of somebody else is kept alive"


def test_failing_factory_leaves_nothing():
    def failing(original):
        raise ZeroDivisionError

    patches = patches_of((Base, "method", loud), (Base, "value", failing))
    with pytest.raises(ZeroDivisionError), patches:
        pass
    assert Base().method() == "method" and not patches.active


def test_patch_of_somebody_else_on_top_stays():
    class Patched(Base):
        pass

    with patches_of((Patched, "method", loud)):
        Patched.method = lambda self: "theirs"
    assert Patched().method() == "theirs"


def test_registering_while_in_use_is_refused():
    patches = patches_of((Base, "method", loud))
    with patches, pytest.raises(RuntimeError, match="'test' is in use"):
        patches.register(Base, "value", loud)


def test_threads_share_the_patches():
    patches = patches_of((Base, "method", loud))
    seen = []
    barrier = threading.Barrier(8, timeout=LIMIT)

    def work(_):
        barrier.wait()
        for _ in range(200):
            with patches:
                seen.append(Base().method())

    in_threads(8, work)
    assert set(seen) == {"METHOD"}
    assert Base().method() == "method"


class Model(chainer.Chain):
    def __init__(self) -> None:
        super().__init__()
        self.scale = 1.0
        with self.init_scope():
            self.linear = L.Linear(3, 2)
            self.norm = L.BatchNormalization(2)


def _register_parameter(model: Model) -> None:
    with model.init_scope():
        model.extra = chainer.Parameter(0, (2,))


def _load(model: Model) -> None:
    chainer.serializers.DictionarySerializer().save(model)


CHAIN_WRITES = {
    "attribute": lambda m: setattr(m, "scale", 2.0),
    "same value": lambda m: setattr(m, "scale", m.scale),
    "attribute of a child": lambda m: setattr(m.linear, "anything", 1),
    "parameter replaced": lambda m: setattr(m.linear, "W", chainer.Parameter(m.linear.W.array)),
    "parameter registered": _register_parameter,
    "delattr": lambda m: delattr(m, "scale"),
    "delattr of a child": lambda m: delattr(m, "linear"),
    "add_param": lambda m: m.add_param("more", (2,)),
    "add_link": lambda m: m.add_link("more", L.Linear(2, 2)),
    "add_persistent": lambda m: m.add_persistent("more", 1),
    "register_persistent": lambda m: m.register_persistent("scale"),
    "copyparams": lambda m: m.copyparams(Model()),
    "serialize": _load,
    "to_device": lambda m: m.to_device("@numpy"),
    "add_hook": lambda m: m.add_hook(chainer.link_hooks.TimerHook()),
    "init_scope": lambda m: m.init_scope().__enter__(),
}


def test_version_wraps_every_method_it_names():
    for class_name, method_names in link_version._CHANGING.items():
        for name in method_names:
            assert hasattr(vars(getattr(chainer, class_name))[name], "__wrapped__"), name


@pytest.mark.parametrize("name", CHAIN_WRITES)
def test_version_counts_writes_to_chains(name):
    model = Model()
    before = LINK_VERSION[0]
    CHAIN_WRITES[name](model)
    assert LINK_VERSION[0] != before


LIST_WRITES = {
    "append": lambda c: c.append(L.Linear(2, 2)),
    "add_link": lambda c: c.add_link(L.Linear(2, 2)),
    "insert": lambda c: c.insert(0, L.Linear(2, 2)),
    "setitem": lambda c: c.__setitem__(0, L.Linear(2, 2)),
    "delitem of the last": lambda c: c.__delitem__(1),
    "pop": lambda c: c.pop(),
    "clear": lambda c: c.clear(),
}


@pytest.mark.parametrize("kind", [chainer.ChainList, chainer.Sequential])
@pytest.mark.parametrize("name", LIST_WRITES)
def test_version_counts_writes_to_lists(kind, name):
    model = kind(L.Linear(2, 2), L.Linear(2, 2))
    before = LINK_VERSION[0]
    LIST_WRITES[name](model)
    assert LINK_VERSION[0] != before


def test_version_counts_functions_in_a_sequential():
    model = chainer.Sequential(L.Linear(2, 2), F.relu)
    before = LINK_VERSION[0]
    model[1] = F.tanh
    assert LINK_VERSION[0] != before


def test_version_counts_writes_that_are_told():
    before = LINK_VERSION[0]
    link_version.bump()
    assert LINK_VERSION[0] != before


def test_version_stands_still_otherwise():
    model = Model()
    optimizer = chainer.optimizers.SGD().setup(model)
    x = np.ones((2, 3), np.float32)
    before = LINK_VERSION[0]
    with chainer.using_config("train", False):
        loss = F.sum(model.norm(model.linear(x)))
    model.cleargrads()
    loss.backward()
    optimizer.update()
    assert model.scale == 1.0 and list(model.params())
    model.linear.W.array = model.linear.W.array.copy()
    assert LINK_VERSION[0] == before


def test_version_never_repeats_across_threads():
    seen = [[] for _ in range(4)]

    def work(versions):
        link = chainer.Link()
        for number in range(500):
            before = LINK_VERSION[0]
            link.number = number
            assert LINK_VERSION[0] != before
            versions.append(LINK_VERSION[0])

    before = LINK_VERSION[0]
    in_threads(4, lambda i: work(seen[i]))
    # Each write takes a number of its own, whatever the others read in between.
    link = chainer.Link()
    link.number = 0
    assert LINK_VERSION[0] - before > 4 * 500


def test_attribute_writes_behave_as_before():
    class Cooperative:
        def __setattr__(self, name, value):
            super().__setattr__(name, ("seen", value))

    class Mixed(chainer.Link, Cooperative):
        pass

    link = Mixed()
    link.x = 1
    assert link.x == ("seen", 1)

    model = Model()
    with pytest.raises(AttributeError), model.init_scope():
        model.linear = L.Linear(1, 1)
    with model.init_scope():
        model.extra = chainer.Parameter(0, (2,))
    assert model.extra.name == "extra" and "/extra" in dict(model.namedparams())
    again = copy.deepcopy(model)
    assert dict(again.namedparams()).keys() == dict(model.namedparams()).keys()
