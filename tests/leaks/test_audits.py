"""With a mend switched off, its cause is caught by audits alone."""

from __future__ import annotations

import re

import pytest

from .harness import FOLDER, judge, names_in
from .mends import OFF

#: What audits cannot see, each with the reason; docs/audits.md lists them for users.
UNSEEN = {
    "p_01_checkpoint_first_layer": "no gradient leaves the call: no backward to compare",
    "p_06_bytes": "the last bits of a number decide, which rounding changes, too",
    "p_19_forgotten": "two backwards of it would add to gradients twice",
    "p_19_retained_between": "the user's own backward goes through the parts of the call",
    "p_09_kept_in_a_class": "what the trace left in an object of the user's is of another type",
}
#: 2 and 3 are about what lies between the results of a call in the graph, which is the user's own
#: backward; 16 to 18 about crashes and about errors that only static has.
_NOT_FOR_AUDITS = (2, 3, 16, 17, 18)


def _rows():
    for topic in ("gradients", "captured", "values", "outside", "stores", "changed_later"):
        for name in names_in(FOLDER / f"{topic}.py"):
            found = re.match(r"p_(\d+)_", name)
            if topic == "changed_later" and not name.startswith("p_19_"):
                continue  # what is written after the call, and shows in its results
            if found and int(found[1]) in OFF and int(found[1]) not in _NOT_FOR_AUDITS:
                yield pytest.param(topic, name, id=f"{topic}.{name}")


@pytest.mark.parametrize(("topic", "name"), list(_rows()))
def test_audits_alone_catch_it(topic, name):
    """Every replay is audited: what is silent without is right or said with them."""
    path = FOLDER / f"{topic}.py"
    with OFF[int(name.split("_")[1])]():
        without = judge(path, name, "off")
        if without.word != "silent":
            return  # another mend, or luck, sees it as well
        verdict = judge(path, name, 1e9)
    if name in UNSEEN:
        assert verdict.word != "right", "audits see it now"
        return
    assert verdict.word in ("right", "dynamic", "told"), verdict
