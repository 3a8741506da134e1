"""Passes one by one, on instructions by hand and on traced calls."""

from __future__ import annotations

import sdbr
import sdbr.backends
from sdbr.program._memory import Memory
from sdbr.program._rows import fields
from sdbr.program.builder import Builder, ControlSlot
from sdbr.program.memory import check_overlaps, plan
from sdbr.program.passes import PASSES
from sdbr.program.passes.accumulation import accumulation
from sdbr.program.passes.common_subexpressions import common_subexpressions
from sdbr.program.passes.constant_folding import constant_folding
from sdbr.program.program import assemble

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.tolerances import RESULTS, ROUNDINGS


def test_compiled_code_finds_the_fields_of_rows_slots_and_instructions():
    b = Builder()
    x = b.table.bound((2, 3), np.float32, "x")
    x.place = 64
    b.label, b.line = "label", "line"
    instruction = b.emit("python", [x], [b.new((3,), np.float64)], ints=(0, 1), obj=object())
    for thing in (x, x.slot, b.transpose(x), instruction):
        found = fields(thing)
        assert sorted(found) == sorted(thing.__slots__)
        assert all(getattr(thing, name) is value for name, value in found.items())


class Hand:
    """A program by hand: its ops before and after a pass, and what both compute."""

    def __init__(self, build, run):
        self.results = []
        self.names = []
        for change in (None, run):
            b = Builder()
            outs = build(b)
            kept = {row.root.index for row in outs if row.root.slot is None}
            instructions = (
                b.instructions if change is None else change(b.instructions, kept, b.table)
            )
            self.names.append([i.op.name for i in instructions])
            self.instructions = instructions
            arena = plan(instructions, b.table, kept=outs)
            assert check_overlaps(instructions, outs) == []
            program = assemble(instructions, b.table, "test", arena)
            memory = Memory(len(b.table.slots), 8)
            memory.set_control(0, 3.0)
            rng = np.random.RandomState(0)
            for slot in b.table.slots:
                if slot.name in ("bound", "owned"):
                    array = rng.randn(*slot.shape).astype(slot.dtype)
                    memory.bind(slot.index, array)
            sdbr.backends.make_executable(program, memory, "cython").run()
            self.bytes = arena.nbytes
            for row in outs:
                slot = row.root.slot
                array = memory.array(slot.index)
                view = np.ndarray(
                    row.shape, row.dtype, array, row.root.place + row.offset, row.strides
                )
                self.results.append(view.copy())
        half = len(self.results) // 2
        for got, want in zip(self.results[half:], self.results[:half], strict=True):
            np.testing.assert_allclose(got, want, rtol=ROUNDINGS, atol=ROUNDINGS)
        self.before, self.after = self.names


def bound(b, *shape):
    return b.table.bound(shape, "f", "bound")


# --- common subexpressions -----------------------------------------------------------------------
def equal_ops(change):
    def build(b):
        x, y = bound(b, 3, 4), bound(b, 3, 4)
        first = b.elementwise("leaky_relu", x, floats=(0.5,))
        second = change(b, x, y)
        return [b.elementwise("add", first, b.reduce("sum", second, (1,), keepdims=True))]

    return build


def test_equal_ops_run_once():
    hand = Hand(
        equal_ops(lambda b, x, y: b.elementwise("leaky_relu", x, floats=(0.5,))),
        common_subexpressions,
    )
    assert hand.before.count("leaky_relu") == 2 and hand.after.count("leaky_relu") == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda b, x, y: b.elementwise("leaky_relu", y, floats=(0.5,)),
        lambda b, x, y: b.elementwise("leaky_relu", x, floats=(0.25,)),
        lambda b, x, y: b.elementwise("leaky_relu", x, floats=(ControlSlot(0, 0.5),)),
        lambda b, x, y: b.elementwise("elu", x, floats=(0.5,)),
        lambda b, x, y: b.elementwise(
            "leaky_relu", b.slice(x, slice(None, None, -1)), floats=(0.5,)
        ),
    ],
)
def test_other_ops_do_not_count_as_equal(change):
    hand = Hand(equal_ops(change), common_subexpressions)
    assert hand.before == hand.after


def test_what_was_written_in_between_is_not_equal():
    def build(b):
        p, g = bound(b, 3), bound(b, 3)
        first = b.elementwise("exp", p)
        b.emit("sgd", [g, p], [p], floats=(0.1,))
        return [b.elementwise("add", first, b.elementwise("exp", p))]

    assert Hand(build, common_subexpressions).after.count("exp") == 2


def test_draws_are_never_equal():
    def build(b):
        x = bound(b, 3, 4)
        rows = [b.new((3, 4), "f") for _ in range(4)]
        for k in (0, 2):
            b.emit("dropout", [x], rows[k : k + 2], floats=(0.5,))
        return [b.elementwise("subtract", rows[0], rows[2])]

    b = Builder()
    (out,) = build(b)
    assert len(common_subexpressions(b.instructions, {out.index}, b.table)) == 3


def test_what_is_handed_out_stays_apart():
    def build(b):
        x = bound(b, 3)
        rows = [b.table.owned((3,), "f", "owned") for _ in range(2)]
        for row in rows:
            b.emit("exp", [x], [row])
        return rows

    assert Hand(build, common_subexpressions).after == ["exp", "exp"]


def test_large_results_are_not_kept_for_long():
    def build(b):
        x = bound(b, 64, 64)
        total = b.reduce("sum", b.elementwise("exp", x), (1,))
        for _ in range(30):
            total = b.elementwise("tanh", total)
        return [b.elementwise("add", b.reduce("sum", b.elementwise("exp", x), (1,)), total)]

    assert Hand(build, common_subexpressions).after.count("exp") == 2


# --- constants ------------------------------------------------------------------------------------
def test_ops_on_constants_are_computed_at_once():
    def build(b):
        c = b.elementwise("add_constant", b.fill((), "f", 2.0), floats=(1.0,))
        d = b.elementwise("multiply", b.constant(np.arange(4, dtype="f")), b.broadcast(c, (4,)))
        return [b.elementwise("add", bound(b, 3, 4), d)]

    hand = Hand(build, constant_folding)
    assert hand.before == ["fill", "add_constant", "multiply", "add"] and hand.after == ["add"]


def test_a_fill_becomes_one_number():
    def build(b):
        ones = b.reshape(b.fill((1000, 1000), "f", 2.0), (1000000,))
        return [b.elementwise("multiply", bound(b, 1000000), ones)]

    hand = Hand(build, constant_folding)
    assert hand.after == ["multiply"] and not any(hand.instructions[0].ins[1].strides)


def test_numbers_that_change_and_readers_that_want_an_array_keep_their_fill():
    def build(b):
        changing = b.fill((3, 4), "f", ControlSlot(0, 3.0))
        out = b.table.owned((3, 3), "f", "owned")
        b.emit("gemm", [b.fill((3, 4), "f", 2.0), changing], [out], ints=(0, 1, 0))
        return [out]

    hand = Hand(build, constant_folding)
    assert hand.after == hand.before == ["fill", "fill", "gemm"]


def test_constants_of_the_user_are_read_at_each_run():
    weight = np.full(4, 2.0, "f")
    static = sdbr.static_graph(lambda x: F.exp(chainer.as_variable(weight)) * x)
    x = chainer.Variable(np.ones(4, "f"))
    for _ in range(3):
        static(x)
    program = static.schedule_manager.static_schedule.programs["forward"]
    assert "exp" in program.disassemble()


def test_large_constants_are_not_kept():
    def build(b):
        c = b.broadcast(b.constant(np.ones(4, "f")), (30000, 4))
        return [b.elementwise("add", bound(b, 30000, 4), b.elementwise("exp", c))]

    assert Hand(build, constant_folding).after == ["exp", "add"]


# --- accumulation ---------------------------------------------------------------------------------
def gradients(b, n=3):
    return [[bound(b, 5, 3), bound(b, 5, 4)] for _ in range(n)]


def product(b, x, g):
    w = b.new((3, 4), "f")
    b.emit("gemm", [x, g], [w], ints=(1, 0, 0))
    return w


def test_products_are_added_where_they_are_made():
    def build(b):
        total = None
        for x, g in gradients(b):
            w = product(b, x, g)
            total = w if total is None else b.elementwise("add", total, w)
        return [total]

    hand = Hand(build, accumulation)
    assert hand.before.count("add") == 2 and hand.after == ["gemm"] * 3
    assert [i.ints[2] for i in hand.instructions] == [0, 1, 1]
    assert hand.bytes == 64


def test_a_product_is_added_to_what_any_op_makes():
    def build(b):
        ((x, g),) = gradients(b, 1)
        other = b.reshape(b.elementwise("exp", bound(b, 12)), (3, 4))
        return [b.elementwise("add", other, product(b, x, g))]

    assert Hand(build, accumulation).after == ["exp", "gemm"]


@pytest.mark.parametrize(
    "what", ["read again", "kept", "caller's", "the product is first", "twice the same"]
)
def test_sums_that_stay(what):
    def build(b):
        ((x, g),) = gradients(b, 1)
        if what == "the product is first":
            w = product(b, x, g)
            return [b.elementwise("add", b.elementwise("exp", bound(b, 3, 4)), w)]
        other = bound(b, 3, 4) if what == "caller's" else b.elementwise("exp", bound(b, 3, 4))
        w = product(b, x, g)
        total = b.elementwise("add", w if what == "twice the same" else other, w)
        if what == "read again":
            return [b.elementwise("multiply", total, other)]
        return [total, other] if what == "kept" else [total]

    hand = Hand(build, accumulation)
    assert "add" in hand.after


class Shared(chainer.Chain):
    """One layer used three times."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.layer = L.Linear(6, 6)

    def forward(self, x):
        h = x
        for _ in range(3):
            h = F.tanh(self.layer(h)) * x
        return F.sum(h)


def test_shared_weights_are_native_without_sums():
    x = np.random.RandomState(0).randn(5, 6).astype("f")
    grads = []
    for off in ("", "accumulation"):
        np.random.seed(0)
        model = sdbr.static_graph(Shared())
        with chainer.using_config("sdbr_disabled_passes", [off, *({"recurrent"} & set(PASSES))]):
            for _ in range(3):
                model.cleargrads()
                model(x).backward()
        assert model.schedule_manager.statistics.replays == 2
        (program,) = model.schedule_manager.static_schedule.programs["backward"]
        assert ("accumulate=1" in program.disassemble()) == (off == "")
        grads.append(model.layer.W.grad)
    np.testing.assert_allclose(*grads, rtol=RESULTS, atol=ROUNDINGS)
