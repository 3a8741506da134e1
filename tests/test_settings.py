"""Settings: one table, checked when they are set, on the page, in the environment."""

import inspect
import io
import os
import pathlib
import subprocess
import sys

import sdbr
from sdbr.base import logs, settings
from sdbr.base.options import BACKEND_NAMES
from sdbr.compat import checked_config
from sdbr.inspection import settings_page

import chainer
import numpy as np
import pytest
from chainer.configuration import GlobalConfig, LocalConfig

from tests.harness.threads import in_threads

ENTRIES = [setting for setting in settings.SETTINGS if setting.entry]
PAGE = pathlib.Path(__file__).parents[1] / "docs" / "settings.md"

#: What some entries may be besides their default, and what they may not.
VALUES = {
    "sdbr_backend": (["off", "numpy"], ["cpu", "", None, 3, ["auto"]]),
    "sdbr_audit": (["off", 0, 0.5, "0.1", 1e9], ["sometimes", -1, True, None, float("nan")]),
    "sdbr_num_threads": ([None, 1, "2", 64, np.int64(3)], [0, -1, 1.5, True, "many", 65]),
    "sdbr_flush_denormals": ([True, False], ["yes", None, 1, 0.5]),
    "sdbr_onednn": (["off", "blocked"], ["fast", None, True]),
    "sdbr_tune": ([True, False], ["1", None, 0]),
    "sdbr_random": (["philox"], ["mine", None]),
    "sdbr_launch": (["kernels", "programmatic branches"], ["fast", "", 3]),
    "sdbr_overlap": ([True, False], ["yes", 1, None]),
    "sdbr_tf32": ([True], ["yes", 1, None]),
    "sdbr_disabled_passes": (["fusion,views", ["fusion"], ()], [3, None, [1]]),
    "sdbr_keep_instructions": ([True], ["yes"]),
}
GOOD = [(name, value) for name, (good, _) in VALUES.items() for value in good]
BAD = [(name, value) for name, (_, bad) in VALUES.items() for value in bad]


def test_all_are_tried():
    assert set(VALUES) == {setting.entry for setting in ENTRIES}
    assert all(setting.refusal(setting.default) is None for setting in settings.SETTINGS)


@pytest.mark.parametrize(("name", "value"), GOOD)
def test_what_may_be_set(name, value):
    with chainer.using_config(name, value):
        assert getattr(chainer.config, name) is value
        setattr(chainer.config, name, value)
        assert settings.entry(name) is value


@pytest.mark.parametrize(("name", "value"), BAD)
def test_what_may_not(name, value):
    """The error names entry, values and what came; the entry is what it was."""
    before = getattr(chainer.config, name, "none")
    ways = [
        lambda: chainer.using_config(name, value),
        lambda: setattr(chainer.config, name, value),
        lambda: setattr(chainer.global_config, name, value),
    ]
    for way in ways:
        with pytest.raises(sdbr.SettingError, match=name) as caught:
            way()
        assert str(caught.value).endswith(f", got {value!r}")
        assert "expected " in str(caught.value) and isinstance(caught.value, ValueError)
        assert getattr(chainer.config, name, "none") is before


def test_other_entries_are_anybodys():
    with chainer.using_config("train", "maybe"), chainer.using_config("my_sdbr_audit", -1):
        assert chainer.config.my_sdbr_audit == -1


def test_chainer_lets_entries_be_anything():
    """Where it does not, the patch is no longer needed."""
    assert set(checked_config.REPLACED) == {GlobalConfig, LocalConfig}
    assert chainer.__version__ == "7.8.1"
    replaced = checked_config.REPLACED
    assert replaced[GlobalConfig] is object.__setattr__
    assert "raise" not in inspect.getsource(replaced[LocalConfig])
    checked_config.install()
    assert replaced == checked_config.REPLACED


def test_a_call_refuses_what_came_past_the_checks(monkeypatch):
    """A variable of the environment, read at import."""
    function = sdbr.static_graph(lambda x: x * 2)
    monkeypatch.setitem(vars(chainer.global_config), "sdbr_backend", "gpu")
    with pytest.raises(sdbr.BackendError, match=r"sdbr_backend \(or SDBR_BACKEND\): expected one"):
        function(np.ones(3, "f"))


@pytest.mark.parametrize("name", [name for name in VALUES if name != "sdbr_keep_instructions"])
def test_all_are_shown(name):
    shown = io.StringIO()
    chainer.config.show(shown)
    assert f"\n{name} " in shown.getvalue()


VARIABLES = """
import sdbr, chainer
from sdbr.base.settings import SETTINGS
print({s.entry: getattr(chainer.config, s.entry) for s in SETTINGS if s.entry and s.what})
"""


def read(**variables):
    own = {name: text for name, text in os.environ.items() if not name.startswith("SDBR_")}
    done = subprocess.run(
        [sys.executable, "-c", VARIABLES],
        capture_output=True,
        text=True,
        env={**own, **variables},
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return eval(done.stdout)


def test_variables():
    defaults = {setting.entry: setting.default for setting in ENTRIES if setting.what}
    assert read(SDBR_TUNE="", SDBR_BACKEND="", CUPY_TF32="0") == defaults
    given = read(
        SDBR_TUNE="off", SDBR_FLUSH_DENORMALS="1", SDBR_AUDIT="0.5", SDBR_NUM_THREADS="3",
        CUPY_TF32="1", SDBR_ONEDNN="last", SDBR_DISABLED_PASSES="views", SDBR_BACKEND="numpy",
    )  # fmt: skip
    assert given == {
        **defaults, "sdbr_tune": False, "sdbr_flush_denormals": True, "sdbr_audit": "0.5",
        "sdbr_num_threads": "3", "sdbr_tf32": True, "sdbr_onednn": "last",
        "sdbr_disabled_passes": "views", "sdbr_backend": "numpy",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text", "wrong"),
    [
        ("SDBR_TUNE", "maybe", True), ("SDBR_TUNE", "0", False), ("SDBR_TUNE", "", False),
        ("SDBR_AUDIT", "-1", True), ("SDBR_AUDIT", "0.5", False), ("SDBR_NUM_THREADS", "x", True),
        ("SDBR_LOG", "traces, misses", False), ("SDBR_LOG", "all", False),
        ("SDBR_LOG", "traces,mises", True), ("SDBR_SIMD", "sse", True), ("SDBR_CACHE", "", False),
        ("SDBR_BUILD_CACHE", "kept", False), ("SDBR_EXTENSIONS", "no", True),
    ],
)  # fmt: skip
def test_which_variables_are_refused(monkeypatch, name, text, wrong):
    monkeypatch.setenv(name, text)
    found = settings.refused_variable(name)
    assert (found is not None) is wrong
    assert not wrong or (name in found and "expected " in found)
    assert name not in dict(settings.unknown_variables())


def test_backends_are_those_of_the_decorator():
    setting = next(s for s in settings.SETTINGS if s.entry == "sdbr_backend")
    assert all(setting.refusal(name) is None for name in BACKEND_NAMES)


def test_page_is_up_to_date():
    message = "run `python -m sdbr.inspection.settings_page > docs/settings.md`"
    assert PAGE.read_text(encoding="utf-8") == settings_page.settings_page(), message


LOGGED = """
import sdbr, warnings
import chainer, chainer.functions as F, chainer.links as L, numpy as np
warnings.simplefilter("ignore")
chain = chainer.Sequential(L.Linear(3, 4), F.relu, L.Linear(4, 2))
model = sdbr.static_graph(L.Classifier(chain))
optimizer = sdbr.static_optimizer(chainer.optimizers.Adam()).setup(model)
for n in (2, 2, 2, 5, 5):
    optimizer.update(model, np.ones((n, 3), "f"), np.zeros(n, "i"))

@sdbr.static_graph
def drawing(x):
    return x * float(__import__("time").perf_counter() > 0)

@sdbr.static_graph
def shaped(x):
    return x * 2

for i in range(40):
    drawing(np.ones(3, "f"))
    shaped(np.ones((1,) * (i % 30), "f"))
"""


def log(topics):
    environment = {**os.environ, "SDBR_LOG": topics}
    done = subprocess.run(
        [sys.executable, "-c", LOGGED], capture_output=True, text=True, env=environment, timeout=300
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    return done.stderr.splitlines()


def test_log():
    lines = log("all")
    topics = {topic: [x for x in lines if x.startswith(f"sdbr.{topic}: ")] for topic in logs.TOPICS}
    assert sum(map(len, topics.values())) == len(lines) and all(topics.values())
    traces = [line for line in topics["traces"] if "Classifier.forward" in line]
    assert "traced 5 nodes in " in traces[0] and "in <module>" in traces[0]
    assert "float32[2,3] -> float32[5,3]" in topics["misses"][0]
    assert topics["step"][0] == "sdbr.step: Classifier.forward: whole step of 15 ops"
    assert "step: 15 ops, 0 of them Python ops" in "".join(topics["build"])
    assert any(line.startswith("sdbr.dynamic: drawing") for line in topics["dynamic"])
    assert "shaped: call " in topics["backoff"][0]
    some = log("step, traces, nothing")
    assert {line.split(": ")[0] for line in some[1:]} == {"sdbr.step", "sdbr.traces"}
    assert "SdbrWarning: SDBR_LOG: expected some of traces, misses" in some[0]
    assert some[0].endswith("got 'step, traces, nothing'")
    assert log("") == []


def test_threads_have_entries_of_their_own():
    def look(_):
        chainer.config.sdbr_audit = 0.25
        return chainer.config.sdbr_audit

    found = in_threads(1, look)
    assert found == [0.25] and chainer.config.sdbr_audit != 0.25
