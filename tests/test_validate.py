"""Malformed programs never reach the loop: what is wrong with their arrays is said."""

import sdbr.backends
from sdbr.base.errors import ValidationError
from sdbr.ops.table import BY_NAME, OPS
from sdbr.program._memory import Memory
from sdbr.program.buffers import ARENA, CONSTANT
from sdbr.program.builder import Builder
from sdbr.program.program import assemble

import numpy as np
import pytest

from tests.harness.comparison import BACKENDS
from tests.harness.written_program import three_ops


def change(name, index, value):
    def apply(program):
        getattr(program, name)[index] = value

    return apply


def shorten(name):
    def apply(program):
        setattr(program, name, getattr(program, name)[:-1])

    return apply


def row_field(row, field, value):
    def apply(program):
        program.rows[row][field] = value

    return apply


def slot_field(slot, field, value):
    def apply(program):
        setattr(program.slots[slot], field, value)

    return apply


def as_dtype(name, dtype):
    def apply(program):
        setattr(program, name, getattr(program, name).astype(dtype))

    return apply


def both(*damages):
    def apply(program):
        for damage in damages:
            damage(program)

    return apply


FAR = (1 << 63) - 1
MALFORMED = [
    (change("opcodes", 1, len(OPS)), f"op 1: unknown opcode {len(OPS)}"),
    (change("opcodes", 1, -1), "op 1: unknown opcode -1"),
    (change("operands", 4, 6), r"op 1 \(mul_constant\): operand 6 is not a row; there are 6"),
    (change("operands", 4, -1), "operand -1 is not a row"),
    (change("n_outputs", 1, 2), r"op 1 \(mul_constant\): 0 inputs, expected 1"),
    (change("n_outputs", 0, 0), r"op 0 \(linear\): 0 outputs, expected 1"),
    (change("operand_offsets", 1, 6), "operand_offsets must rise"),
    (change("attribute_offsets", (2, 1), 0), "float attributes, expected 1"),
    (change("attribute_offsets", (1, 0), 0), "integer attributes, expected 1"),
    (shorten("operand_offsets"), "operand_offsets must have one entry more"),
    (shorten("attribute_offsets"), "attribute_offsets must have one entry more"),
    (shorten("n_outputs"), "n_outputs must have one entry per op"),
    (row_field(0, "type", 99), "unknown dtype"),
    (row_field(0, "slot", 4), "unknown slot"),
    (row_field(3, "offset", 100), "row 3 reaches bytes 100 to 132 of slot 2"),
    (row_field(0, "offset", -4), "row 0 reaches bytes -4"),
    (row_field(5, "dims", 20), "shape outside dims"),
    (change("dims", 0, -2), "negative length"),
    (change("dims", 2, 1 << 20), "row 0 reaches"),
    # Sizes, strides and offsets whose products and sums do not fit in 32 or 64 bits.
    (change("dims", 0, (1 << 32) + 1), "row 0 reaches"),
    (change("dims", 0, FAR), f"row 0 reaches bytes 0 to {12 * (FAR - 1) + 12} of"),
    (change("dims", slice(0, 3), (5, 3, 1 << 62)), f"row 0 reaches bytes 0 to {(1 << 64) + 12} of"),
    (change("dims", 2, 1 << 62), f"row 0 reaches bytes 0 to {(1 << 62) + 12} of"),
    (change("dims", 2, FAR - 3), f"row 0 reaches bytes 0 to {FAR - 3 + 12} of"),
    (change("dims", 2, -(1 << 63)), f"row 0 reaches bytes -{1 << 63} to 12 of"),
    (change("dims", slice(0, 4), (1 << 33, 1 << 33, 0, 0)), "row 0 reaches bytes 0 to 4 of"),
    (change("dims", slice(0, 4), (0, FAR, 0, 0)), "row 0 reaches"),
    (row_field(0, "offset", FAR), f"row 0 reaches bytes {FAR} to {FAR + 24} of"),
    (row_field(0, "offset", -FAR - 1), f"row 0 reaches bytes {-FAR - 1} to"),
    (row_field(0, "ndim", 1 << 30), "shape outside dims"),
    (row_field(0, "dims", FAR), "shape outside dims"),
    (row_field(0, "ndim", -1), "shape outside dims"),
    # What of a row has to agree, and where its elements may lie.
    (row_field(0, "kind", ARENA), "row 0: kind, slot and base 0 do not agree"),
    (row_field(2, "slot", 1), "row 2: kind, slot and base 2 do not agree"),
    (
        row_field(4, "base", 2),
        "row 4 reaches bytes 64 to 96 of its slot, and its base 2",
    ),
    (row_field(4, "base", 1), "row 4: kind, slot and base 1 do not agree"),
    (row_field(3, "base", 4), "row 3: kind, slot and base 4 do not agree"),
    (row_field(4, "base", 6), "unknown base"),
    (row_field(4, "base", -1), "unknown base"),
    (row_field(3, "offset", 66), "row 3: its elements lie at no multiples of 4 bytes"),
    (change("dims", 10, 18), "row 2: its elements lie at no multiples of 4 bytes"),
    (row_field(0, "type", 1), "row 0"),
    (both(slot_field(1, "dtype", np.dtype("u1")), slot_field(1, "shape", (48,))), "aligned to 1"),
    # Slots: as large as their arrays, each with a number of its own.
    (slot_field(0, "nbytes", 1 << 62), f"{1 << 62} bytes of memory"),
    (slot_field(0, "nbytes", -1), "-1 bytes of memory"),
    (slot_field(0, "nbytes", 28), r"slot 0 \('x'\) of 28 bytes, for float32\[2, 3\]"),
    (slot_field(0, "shape", (1 << 40, 1 << 40)), r"slot 0 \('x'\) of 24 bytes"),
    (slot_field(0, "index", 1), r"slot 1 \('w'\): number 1, taken or none"),
    (slot_field(0, "index", -1), r"slot 0 \('x'\): number -1, taken or none"),
    (lambda p: setattr(p, "arena_bytes", 1 << 63), f"{1 << 63} bytes of memory"),
    # The arrays themselves.
    (as_dtype("opcodes", np.int64), "opcodes must be a C-contiguous array of int32"),
    (as_dtype("operand_offsets", np.int64), "operand_offsets must be"),
    (as_dtype("int_attributes", np.float64), "int_attributes must be"),
    (as_dtype("control_references", np.int64), "control_references must be"),
    (
        lambda p: setattr(p, "attribute_offsets", p.operand_offsets),
        "attribute_offsets must",
    ),
    (lambda p: setattr(p, "operands", p.operands[::-1]), "operands must be"),
    (lambda p: setattr(p, "dims", p.dims.tolist()), "dims must be"),
    (lambda p: setattr(p, "labels", ("x",)), "labels, lines and links must have one entry per op"),
    # What is written.
    (change("dims", 21, 0), r"op 2 \(sum\): operand 1, .*, is written, but .* share memory"),
    (slot_field(3, "kind", CONSTANT), "row 5: kind, slot and base"),
    (
        both(slot_field(3, "kind", CONSTANT), row_field(5, "kind", CONSTANT)),
        r"op 2 \(sum\): operand 1, .*, is written, but lies in a constant",
    ),
    (row_field(3, "offset", 16), r"row 4 reaches|op 1 \(mul_constant\)"),
    (
        both(row_field(3, "offset", 16), row_field(4, "offset", 16)),
        r"op 1 \(mul_constant\): output 0 \(y\) overlaps input 0 \(x\), of which it may only",
    ),
]


def test_an_op_may_take_the_place_of_what_it_reads():
    program = three_ops()
    program.rows["offset"][3:5] = 0
    program.validate()


def test_strided_operands_that_lie_between_each_other_do_not_overlap():
    b = Builder()
    x = b.table.bound((4, 6), "f4", "x")
    left, right = (b.table.view(x, (4, 3), (24, 4), at) for at in (0, 12))
    b.emit("copy", [left], [right])
    assemble(b.instructions, b.table).validate()
    b.emit("copy", [left], [b.table.view(x, (4, 3), (24, 4), 8)])
    with pytest.raises(ValidationError, match=r"op 1 \(copy\): output 0 \(y\) overlaps input 0"):
        assemble(b.instructions, b.table).validate()


@pytest.mark.parametrize("number", [1 << 20, (1 << 31) - 1])
def test_numbers_of_slots_and_control_values_are_those_of_a_memory(number):
    program = three_ops()
    program.control_references = np.array([[0, number]], np.int32)
    with pytest.raises(ValidationError, match=rf"control slot {number}, expected less than"):
        program.validate()
    program.control_references[0, 1] = 7
    program.validate()
    program.slots[0].index = number
    with pytest.raises(ValidationError, match=rf"slot 0 \('x'\): number {number}, taken or none"):
        program.validate()


def test_branches_hold_no_op_with_an_effect():
    b = Builder()
    x, y = (b.table.bound((3,), "f4", name) for name in "xy")
    b.emit("fork", [], [], (1, 1, 0, 0))
    b.emit("exp", [x], [y])
    b.emit("uniform", [], [b.table.bound((3,), "f4", "z")], (), (0.0, 1.0))
    b.emit("exp", [x], [b.table.bound((3,), "f4", "end")])
    with pytest.raises(ValidationError, match=r"op 0 \(fork\): branches of \[1, 1, 0, 0\] ops"):
        assemble(b.instructions, b.table).validate()


@pytest.mark.parametrize("lengths", [(FAR, FAR, 1, 0), (1, FAR, 0, 0), (1, -1, 1, 0), (0, 1, 0, 0)])
def test_lengths_of_branches_are_added_up_without_overflow(lengths):
    b = Builder()
    x, y = (b.table.bound((3,), "f4", name) for name in "xy")
    b.emit("fork", [], [], lengths)
    b.emit("exp", [x], [y])
    with pytest.raises(ValidationError, match=r"op 0 \(fork\)"):
        assemble(b.instructions, b.table).validate()


def test_equal_integers_of_ops_do_not_hide_operands_that_overlap():
    """Ops are told apart by how many integers they have, and by what shares memory."""
    b = Builder()
    code = BY_NAME["exp"].opcode
    x, y = (b.table.bound((6,), "f4", name) for name in "xy")
    near = b.table.bound((8,), "f4", "near")
    rows = [b.table.view(near, (6,), (4,), at) for at in (0, 4)]
    b.emit("fused", [x], [y], (code, 0, 2, 1, 0, 0), ())
    b.emit("fused", [rows[0]], [rows[1]], (code, 0, 1), ())
    with pytest.raises(ValidationError, match=r"op 0|op 1 \(fused\): output 0 .* overlaps"):
        assemble(b.instructions, b.table).validate()
    b.emit("exp", [x], [y])
    b.emit("exp", [rows[0]], [rows[1]])
    with pytest.raises(ValidationError):
        assemble(b.instructions[2:], b.table).validate()


WINDOWS = {
    "max_pooling": ([(1, 1, 4, 4)], (1, 1, 20, 20), (1, 3, 3, 1, 1, 1, 0, 0, 0)),
    "average_pooling": ([(1, 1, 4, 4)], (1, 1, 20, 20), (1, 3, 3, 1, 1, 1, 0, 0, 0, 1)),
    "max_pooling_grad": ([(1, 1, 20, 20)] * 2, (1, 1, 4, 4), (1, 3, 3, 1, 1, 1, 0, 0, 0, 1)),
    "convolution": (
        [(1, 1, 1, 4, 4), (1, 1, 1, 3, 3)],
        (1, 1, 1, 9, 9),
        (1,) * 3 + (0,) * 3 + (1,) * 4 + (0,),
    ),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_windows_beyond_their_input_are_refused(name):
    ins, out, ints = WINDOWS[name]
    b = Builder()
    dtypes = ["f4", "u1" if name.endswith("grad") else "f4"]
    rows = [b.table.bound(s, d, "x") for s, d in zip(ins, dtypes, strict=False)]
    b.emit(name, rows, [b.table.bound(out, "f4", "y")], ints)
    with pytest.raises(ValidationError, match="windows along h, expected at most 2: 3 wide"):
        assemble(b.instructions, b.table).validate()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("damage", "message"), MALFORMED, ids=[m for _, m in MALFORMED])
def test_malformed_programs_are_refused(backend, damage, message):
    program = three_ops()
    damage(program)
    with pytest.raises(ValidationError, match=message):
        sdbr.backends.make_executable(program, Memory(4, 0), backend)


def test_python_op_without_object_is_refused():
    b = Builder()
    b.emit("python", [], [], (0, 0), obj=print)
    program = assemble(b.instructions, b.table)
    program.objects = ()
    with pytest.raises(ValidationError, match="object slot 0 does not exist"):
        sdbr.backends.make_executable(program, Memory(), "cython")


def test_control_reference_outside_is_refused():
    program = three_ops()
    program.control_references = np.array([[1, 0]], np.int32)
    with pytest.raises(ValidationError, match="control_references"):
        sdbr.backends.make_executable(program, Memory(4, 0), "cython")


def test_rows_without_memory_or_of_another_table_are_refused():
    b = Builder()
    x = b.table.bound((2,), "f4", "x")
    b.emit("relu", [x], [b.new((2,), "f4", "y")])
    with pytest.raises(ValidationError, match=r"Row 1 y .* has no memory"):
        assemble(b.instructions, b.table)
    with pytest.raises(ValidationError, match=r"Row 0 x .* is of another table"):
        assemble(b.instructions, Builder().table)


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ((1, 1, 1, 1 << 31, 1, 1, 0, 0, 0), "window 1, stride 2147483648, padding 0"),
        ((1, 1, 1, 1, 1, 1, 0, 1 << 62, 0), "padding 4611686018427387904, dilation 1 along h"),
        ((1, (1 << 31) + 1, 1, 1, 1, 1, 0, 1 << 30, 0), "window 2147483649, stride 1"),
        (
            (1, 1 << 16, 1 << 16, 1, 1, 1, 0, 1 << 16, 1 << 16),
            f"{1 << 32} places in a window, not below",
        ),
    ],
)
def test_windows_are_counted_in_64_bits_and_their_places_in_32(numbers, message):
    b = Builder()
    x, y = (b.table.bound((1, 1, 4, 4), "f4", name) for name in "xy")
    b.emit("max_pooling", [x], [y], numbers)
    with pytest.raises(ValidationError, match=message):
        assemble(b.instructions, b.table).validate()


def test_an_output_takes_the_place_of_one_input_and_spares_the_others():
    b = Builder()
    near = b.table.bound((8,), "f4", "near")
    x, y = (b.table.view(near, (6,), (4,), at) for at in (0, 4))
    b.emit("add", [x, x], [x])
    assemble(b.instructions, b.table).validate()
    b.emit("add", [x, y], [x])
    with pytest.raises(ValidationError, match=r"output 0 \(z\) overlaps input 1 \(y\)"):
        assemble(b.instructions, b.table).validate()


@pytest.mark.parametrize("name", ["resize", "resize_grad"])
def test_an_image_of_nothing_has_no_pixels(name):
    b = Builder()
    x, y = b.table.bound((1, 0, 3), "f4", "x"), b.table.bound((1, 2, 3), "f4", "y")
    given = (x, y) if name == "resize" else (y, x)
    b.emit(name, [given[0]], [given[1]], (0,))
    with pytest.raises(ValidationError, match="an image of nothing"):
        assemble(b.instructions, b.table).validate()
