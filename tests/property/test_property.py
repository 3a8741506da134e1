"""Random networks, calls and mode switches: static equals define-by-run after each event."""

from __future__ import annotations

import contextlib
import itertools

import sdbr  # noqa: F401  (first: it makes Chainer importable)
from sdbr.functions.registry import function_of, registered

import chainer
import pytest
from hypothesis import HealthCheck, given, settings

from . import cases, networks, runner
from .operations import all_templates, quiet

SETTINGS = {
    "dtype": "d",
    "form": "instance",
    "optimizer": "Adam",
    "hooks": ["decay"],
    "layout": "whole",
    "tied": False,
    "static_optimizer": True,
    "options": {},
    "tail": (4,),
}
EVENTS = [
    ("call", {"x": "variable", "calls": 2, "hold": True}),
    ("step", {}),
    ("call", {"train": False, "backprop": False, "n": 3}),
]


def body_of(*templates):
    """A network of these statements, each over the latest results."""
    drawn = [(all_templates().index(t), (0, 1, 2), 1) for t in templates]
    return networks.Body(drawn, (4,), "d", learns=True)


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(cases.cases)
def test_static_equals_define_by_run(case):
    cases.check(case)


def test_a_network_of_links_state_draws_and_numpy():
    """One network by hand, so that the rest of the harness is seen to work."""
    templates = [
        "self.norm({a})",
        "F.dropout({a}, 0.3)",
        "self.inner({a})",
        "self.lstm({a})",
        "{a} * self.alpha",
        "{a} * ({b}.array > 0)",
        "{a} if self.state is None else {a} * F.tanh(self.state)",
        "self.state = F.mean({a})",
        "chainer.report({{'mean': F.mean({a})}}, self)",
        "self.b({a})",
    ]
    body = body_of(*templates)
    missing = [t for t in templates if t not in body.used]
    assert missing == []
    run, _ = networks.compare(body.source(), EVENTS, SETTINGS)
    statistics = run.model.schedule_manager.statistics
    assert statistics.define_by_run_calls == 0
    assert statistics.replays >= statistics.calls // 2


def test_every_native_function_is_drawn():
    """A row of the function table that no template reaches is a row that no random case tests."""
    seen = set()

    class Watch(chainer.FunctionHook):
        def forward_preprocess(self, function, in_data):
            kind = type(function_of(function))
            seen.add(f"{kind.__module__}.{kind.__qualname__}")

    with Watch(), quiet():
        for tail, dtype in itertools.product(networks.TAILS, "df"):
            scope = networks.Body.scope(2, tail, dtype)
            for template in all_templates():
                source = template.format(a="x", b="x", c="x", t="t", axis=1)
                with contextlib.suppress(Exception):  # shapes that do not fit
                    exec(source, scope)
    rows = {name for name in registered() if name.startswith("chainer.")}
    assert sorted(rows - seen) == []


def test_a_case_is_a_script_that_can_be_pasted(tmp_path, capsys):
    text = networks.script(body_of("F.tanh({a})", "self.b({a})").source(), EVENTS, SETTINGS)
    assert "tests" not in text.replace("sdbr", "")
    path = tmp_path / "case.py"
    path.write_text(text)
    exec(compile(text, str(path), "exec"), {"__name__": "__main__"})
    assert "static equals define-by-run" in capsys.readouterr().out


def test_a_difference_is_found_and_shown(monkeypatch):
    """The last digits that the contract leaves are tolerated, and no more."""
    source = body_of("F.tanh({a})", "{a} * self.alpha", "self.b({a})").source()

    def compare(change):
        other = source.replace("self.alpha\n", f"self.alpha * {change}\n")
        assert other != source
        makes = [networks.made_from(s, SETTINGS) for s in (source, other)]
        runner.compare(lambda: makes[0](False), lambda: makes[1](True), EVENTS, SETTINGS)

    compare("1.0")
    compare("(1 + 1e-14)")
    for change in ("(1 + 1e-10)", "1.001", "-1.0", "np.nan"):
        with pytest.raises(AssertionError, match="off by"):
            compare(change)


def test_results_that_no_argument_reaches_have_a_history():
    """Found by `make fuzz`: they were leaves, which keep their gradients."""
    index = all_templates().index("chainer.Variable({a}.array) * {b}")
    body = networks.Body([(index, (0, 0, 0), 1)], (4,), "d")
    for plan in ([("call", {"calls": 2, "x": "fed"})], [("call", {"x": "constant"})]):
        networks.compare(body.source(), plan, SETTINGS)


def test_held_results_are_compared_again_at_the_end():
    make = networks.made_from(body_of("F.tanh({a})").source(), SETTINGS)
    run = runner.Run(lambda: make(True), True, EVENTS, SETTINGS)
    held = [what for what, _ in run.records if "held" in what]
    assert any("held result" in what for what in held)
    assert any("held gradient" in what for what in held)
