"""The functions that are native, of the table of equivalence: name, function, arguments."""

from __future__ import annotations

from equivalence.rows import ROWS

CASES = [(row.id, row.call, row.inputs) for row in ROWS if row.native]
