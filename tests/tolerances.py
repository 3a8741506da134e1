"""How far apart numbers of tests may be: the one place for it, each with its reason.

`assert_near` of `tests.harness.comparison` takes them relative to the largest magnitude of the
array, as docs/contract.md does; NumPy's ``rtol`` is relative to each element, ``atol`` absolute.
"""

from __future__ import annotations

# --- the contract -------------------------------------------------------------------------------
#: Results, and the state that calls leave, in float32.
RESULTS = 1e-5
#: Gradients in float32, and what is updated by them.
GRADIENTS = 1e-4
#: Both in float64.
DOUBLE = 1e-12
#: By dtype: results, gradients.
CONTRACT = {"f": (RESULTS, GRADIENTS), "d": (DOUBLE, DOUBLE)}

# --- float32, otherwise -------------------------------------------------------------------------
#: One rounding of a number near one.
LAST_BIT = 1e-7
#: Gradients of powers: a few roundings of the last bit, element by element.
POWERS = 3e-7
#: A few roundings.
ROUNDINGS = 1e-6
#: The same sums in another order, looked at element by element.
ANOTHER_ORDER = 2e-5
#: Results of sums upon sums, or of steps upon steps: as much as gradients may.
SUMS = 1e-4
#: The same of elements that are small among large ones, such as weights after updates.
ELEMENTS = 2e-4
#: Thousands of ops in a row, tens of updates, gradients of gradients: rounding has grown.
LONG = 1e-3
#: No magnitude is taken for smaller, where noise is all that is there.
FLOOR = 1e-30

# --- float64, otherwise -------------------------------------------------------------------------
#: One rounding or two.
DOUBLE_ROUNDINGS = 1e-14
#: Random networks, with the order of sums changed.
DOUBLE_SUMS = 1e-13
#: Recurrent programs over many steps.
DOUBLE_STEPS = 1e-11
#: Trainings, and random expressions differentiated twice.
DOUBLE_TRAINING = 1e-10
#: Where random numbers that Chainer takes in float32 go through gradients of float64.
DOUBLE_LONG = 1e-9

# --- float16 ------------------------------------------------------------------------------------
#: Results: two roundings.
HALF_RESULTS = 2e-3
#: Gradients: sums in float16.
HALF_GRADIENTS = 5e-3
#: Elements: what Chainer computes in float16 throughout.
HALF_SUMS = 1e-2
#: A rounding to float16 where Chainer rounds at another place; results are Chainer's own.
HALF_ROUNDED = 2.0**-9

# --- tables of single folders -------------------------------------------------------------------
#: tests/equivalence: results, gradients. What is not native in float16 is Chainer's own code.
EQUIVALENCE = {**CONTRACT, "e": (0.0, HALF_ROUNDED)}
#: tests/equivalence, float16 inside of a call: ops around it are compared as well.
INSIDE = {"e": (HALF_RESULTS, HALF_RESULTS)}
#: tests/equivalence: gradients of gradients.
SECOND = {"d": DOUBLE_LONG, "f": LONG}
#: tests/conformance: results, gradients; the coarsest dtype first.
CONFORMANCE = {"e": (HALF_RESULTS, HALF_GRADIENTS), **CONTRACT}
#: tests/functions: one Python op, its results; and with its gradients.
ONE_OP = {"e": HALF_RESULTS, "f": ROUNDINGS, "d": DOUBLE_ROUNDINGS}
ONE_OP_BACKWARD = {"e": HALF_RESULTS, "f": RESULTS, "d": DOUBLE}
#: tests/examples: whole trainings.
EXAMPLES = {"float32": ELEMENTS, "float64": DOUBLE_TRAINING}
#: tests/optimizers: updates, element by element of the same arithmetic.
UPDATES = {"f": RESULTS, "d": DOUBLE}
#: tests/leaks: programs that train for some steps, by bytes of the dtype.
PROGRAMS = {2: 2e-2, 4: ELEMENTS, 8: DOUBLE_LONG}
#: tests/parity: a kernel and its formula.
PARITY = {"f4": RESULTS, "f8": DOUBLE}
#: tests/parity: rounding errors of sums, in those of Chainer's own code...
TIMES_CHAINERS = 1.5
#: ... or in units in the last place, where both are at the roundings of the last few steps: of what
#: is rounded once the mean square has the root 0.29, after three roundings 0.5.
FEW_ROUNDINGS = 0.75

# --- memory -------------------------------------------------------------------------------------
#: Of what it is compared with, where much else than arrays is held as well.
MEMORY = 0.1
#: Bytes that anything else in the process may take meanwhile.
BESIDE = 100_000

# --- of others ----------------------------------------------------------------------------------
#: What Chainer's own `gradient_check` is called with: differences of float32.
CHECK = 1e-2
CHECK_SECOND = 1e-1
