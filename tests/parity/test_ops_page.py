"""``docs/ops.md`` is generated; it must be up to date."""

import pathlib

from sdbr.inspection import ops_page
from sdbr.lowering import python_only
from sdbr.ops.table import OPS

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "ops.md"


def test_page_is_up_to_date():
    message = "run `python -m sdbr.inspection.ops_page > docs/ops.md`"
    assert PAGE.read_text(encoding="utf-8") == ops_page.ops_page(), message


def test_page_names_every_op():
    page = ops_page.ops_page()
    assert [op.name for op in OPS if f"`{op.name}`" not in page] == []


def test_what_has_no_row_has_a_reason():
    reasons = python_only.without_row()
    assert [name for name, reason in reasons.items() if reason == "no native code"] == []
