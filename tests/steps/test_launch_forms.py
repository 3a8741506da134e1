"""Whole steps in each form of a graph, whose kernels run in any order that it allows."""

from unittest import mock

from sdbr.backends.cuda.recording import dependences, forms, graphs

import pytest

from tests.harness import device
from tests.harness.launched import (
    LARGE,
    LSTM,
    RULES,
    WORDS,
    Recurrent,
    check_labels_out_of_range,
    is_one_graph,
    large,
)
from tests.harness.models import MODELS
from tests.harness.steps import BATCH, OPTIMIZERS, classifier, compare

FORMS = [name for name in forms.FORMS if name != "graph"]
#: As recorded, depth first, backwards, by chance: see ``fake_order``.
ORDERS = [0, 1, 2, 3, 4]


def early(order):
    """How many kernels have begun early; by chance some do not: then how many might."""
    return device.setting("early" if order <= 2 else "programmatic").value


def branches(executable):
    """How many kernels are on other streams than the first."""
    rows = executable.moves.rows(executable.moves.fixed)
    return sum(turn.lane > 0 for turn in graphs.dealt_out(executable.graphs.waits(0, rows)))


def in_form(form, order, *args, chained=False, races=None, **options):
    """A training in some form and order, compared with define-by-run; its step."""
    began = early(order)
    with device.in_order(order), device.simulated(chained, races=races, form=form) as made:
        compare(*args, backend=device.NAME, **options)
    step = made[-1]
    assert step.program.name == "step" and is_one_graph(step)
    assert not step.graphs.contests
    assert (early(order) > began) == form.startswith("programmatic")
    return step


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("form", FORMS)
def test_recurrent_networks(form, order):
    step = in_form(form, order, Recurrent, WORDS, OPTIMIZERS["adam"], steps=6)
    assert branches(step) > 20


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", RULES)
def test_rules(name, form):
    step = in_form(form, 3, classifier, BATCH, RULES[name], steps=8)
    assert branches(step) > 1


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("order", [2, 5])
def test_kernels_of_several_ops(form, order):
    in_form(form, order, Recurrent, WORDS, OPTIMIZERS["sgd"], steps=6, chained=True)


@pytest.mark.parametrize("name", ["mlp_dropout", "actor_critic", "dqn", "regularised"])
def test_models(name):
    make, batch, native = MODELS[name]
    settings = {"backend": device.NAME, "steps": 6, "native": bool(native)}
    with device.in_order(7), device.simulated(form="programmatic branches"):
        compare(make, batch, OPTIMIZERS["adam"], **settings)


@pytest.mark.parametrize("order", [1, 2, 6])
@pytest.mark.parametrize("form", FORMS)
def test_products_of_the_library(form, order):
    """Each branch has memory of its own for what the library does: the driver looks."""
    before = device.blas_setting("matmuls").value
    with device.by_library() as races:
        args = (LSTM, WORDS, OPTIMIZERS["momentum_with_hooks"])
        step = in_form(form, order, *args, races=races, steps=6)
    assert device.blas_setting("matmuls").value > before
    assert branches(step) > 5
    lanes = step.launching.rooms
    assert len(lanes) == (1 if form == "programmatic" else graphs.dealt_out.__defaults__[0])


@pytest.mark.parametrize("order", [2, 8])
@pytest.mark.parametrize("refused", [0, 8, 128])
def test_masks_of_the_library(order, refused):
    """What one product notes for another, in whatever order others come."""
    with device.by_library(refused=refused) as races:
        # With a hook there is a kernel behind another one that is not the library's.
        args = ("programmatic branches", order, large, LARGE, RULES["lasso"])
        step = in_form(*args, races=races, steps=5)
    assert ("drelu" in str(step.products.choices)) == (not refused)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("order", [1, 2, 9])
def test_labels_out_of_range_leave_everything_as_it_was(form, order):
    """Nothing that lasts is written by who comes behind the wrong label in the program."""
    with device.in_order(order), device.simulated(form=form):
        check_labels_out_of_range()


def test_arrays_that_move_are_kept_apart():
    """The batch, a parameter and gradients are other arrays in each step."""

    def each(model, optimizer, i):
        p = model.predictor.l1.W
        p.array = p.array.copy()
        p.grad = p.grad.copy()

    for order in (0, 2, 10):
        with device.in_order(order), device.simulated(form="branches") as made:
            settings = {"backend": device.NAME, "steps": 9, "each": each}
            compare(classifier, BATCH, OPTIMIZERS["adam"], **settings)
        assert made[0].moving and made[0].recorded <= 3


def test_a_dependence_that_is_missing_shows():
    """Or these tests would show nothing."""

    def none(uses):
        return [[] for _ in uses]

    for form in ("branches", "programmatic branches"):
        with mock.patch.object(graphs, "waits", none), pytest.raises(AssertionError):
            in_form(form, 2, classifier, BATCH, OPTIMIZERS["adam"], steps=6)


@pytest.mark.parametrize("kind", ["read", "write"])
def test_a_kind_of_dependence_that_is_missing_shows(kind):
    """Those of who reads, and those of who writes what was read or written before."""
    with (
        mock.patch.object(dependences._Space, kind, lambda self, who, low, high, found: None),
        pytest.raises((AssertionError, IndexError)),
    ):
        for order in (1, 2, 3, 4, 5, 6):
            in_form("branches", order, Recurrent, WORDS, OPTIMIZERS["adam"], steps=4)
