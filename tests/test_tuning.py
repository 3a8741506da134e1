"""Choices between kernels: what is measured, where it is kept, what overrides it."""

import json

import sdbr
from sdbr.backends.cpu.onednn import library
from sdbr.backends.cpu.onednn.convolution import FORWARD, Convolution
from sdbr.backends.cpu.tuning import cache, convolution, race, wanted
from sdbr.base.cache_folder import cache_folder
from sdbr.base.errors import BackendError

import chainer
import numpy as np
import pytest

PROBLEM = Convolution(FORWARD, (1, 16, 6, 6), (16, 16, 3, 3), (1, 16, 6, 6), (1, 1), (1, 1), (1, 1))
SPECS = [((1, 16, 6, 6), "f4"), ((16, 16, 3, 3), "f4"), ((1, 16, 6, 6), "f4")]
OWN = {"own": ("nop", (0,))}


@pytest.fixture
def measured(monkeypatch, tmp_path):
    """Timing is on, figures come from a table, and lie in a folder of the test."""
    monkeypatch.setenv("SDBR_CACHE", str(tmp_path))
    monkeypatch.setattr(chainer.global_config, "sdbr_tune", True)
    monkeypatch.setattr(chainer.global_config, "sdbr_onednn", "auto")
    convolution._measurements.cache_clear()
    times, asked = {}, []

    def fake(kernels, arrays, threads):
        asked.append(sorted(kernels))
        return {way: times.get(way, 1.0) for way in kernels}

    monkeypatch.setattr(convolution, "race", fake)
    yield times, asked
    convolution._measurements.cache_clear()


@pytest.fixture
def onednn(monkeypatch):
    """A library whose ways are kernels that do nothing."""

    class Library:
        version = (3, 2, 0)

    monkeypatch.setattr(library, "find", lambda: (Library(), "oneDNN 3.2.0, here"))
    monkeypatch.setattr(
        convolution, "_sequence", lambda problem, way: (("foreign", (ord(way[0]),)), Sequence(way))
    )


class Sequence:
    scratch = 0

    def __init__(self, way):
        self.way = way


def choose(specs=SPECS, problem=PROBLEM):
    kernel, ints, choice = convolution.choose(problem, OWN, specs)
    return kernel, tuple(ints), choice


# --- the choice ----------------------------------------------------------------------------------
@pytest.mark.parametrize(("fastest", "name"), [("own", "own"), ("blocked", "oneDNN blocked")])
def test_the_fastest_is_chosen(measured, onednn, fastest, name):
    measured[0][fastest] = 0.5
    kernel, ints, choice = choose()
    assert choice.name == name
    assert (kernel, ints) == (("nop", (0,)) if fastest == "own" else ("foreign", (ord("b"),)))
    assert str(choice).startswith(f"{name} ({fastest} 500 ms, ")
    assert str(choice).endswith("measured)")


def test_what_was_measured_is_not_measured_again(measured, onednn):
    times, asked = measured
    times["last"] = 0.5
    choose()
    times["plain"] = 0.1
    assert choose()[2].way == "last"
    convolution._measurements.cache_clear()  # as in another process
    assert choose()[2].way == "last"
    assert asked == [["blocked", "last", "own", "plain"]]


@pytest.mark.parametrize("asked", ["plain", "blocked", "last"])
def test_a_way_can_be_demanded(measured, onednn, asked):
    with chainer.using_config("sdbr_onednn", asked):
        choice = choose()[2]
    assert (choice.way, choice.why) == (asked, "option")
    assert not measured[1]


def test_always_leaves_out_our_own(measured, onednn):
    measured[0]["own"] = 0.1
    with chainer.using_config("sdbr_onednn", "always"):
        assert choose()[2].name.startswith("oneDNN")
    assert measured[1] == [["blocked", "last", "plain"]]


def test_off_leaves_our_own(measured, onednn):
    with chainer.using_config("sdbr_onednn", "off"):
        choice = choose()[2]
    assert str(choice) == "own (oneDNN is switched off)"
    assert not measured[1]


def test_other_dtypes_are_our_own(measured, onednn):
    choice = choose([(shape, "f8") for shape, _ in SPECS])[2]
    assert str(choice) == "own (oneDNN is used for float32 alone)"


@pytest.mark.parametrize(
    ("w", "way"), [((16, 16, 1, 1), "plain"), ((16, 16, 3, 3), "blocked"), ((16, 8, 3, 3), "own")]
)
def test_a_rule_decides_where_nothing_is_measured(measured, onednn, w, way):
    problem = Convolution(FORWARD, PROBLEM.x, w, PROBLEM.y, (1, 1), (1, 1), (1, 1))
    with chainer.using_config("sdbr_tune", False):
        choice = choose(problem=problem)[2]
    assert (choice.way, choice.why) == (way, "rule")
    assert not measured[1]


def test_time_for_measuring_is_limited(measured, onednn, monkeypatch):
    monkeypatch.setattr(convolution, "TOTAL", -1.0)
    assert choose()[2].why == "rule, the time for measuring is used up"
    assert not measured[1]


def test_without_the_library(measured, monkeypatch):
    monkeypatch.setattr(library, "find", lambda: (None, "not found"))
    assert str(choose()[2]) == "own (oneDNN: not found)"
    for asked in ("always", "blocked"):
        with (
            chainer.using_config("sdbr_onednn", asked),
            pytest.raises(BackendError, match=f"sdbr_onednn is '{asked}', but .* not found"),
        ):
            choose()


def test_what_the_library_refuses_is_ours(measured, onednn, monkeypatch):
    def refuse(problem, way):
        raise BackendError("oneDNN: no")

    monkeypatch.setattr(convolution, "_sequence", refuse)
    measured[0]["own"] = 0.5
    assert choose()[2].name == "own"
    assert measured[1] == [["own"]]
    assert choose()[2].name == "own"  # remembered: nobody asks the library again
    assert measured[1] == [["own"]]
    with chainer.using_config("sdbr_onednn", "plain"):
        assert str(choose()[2]) == "own (oneDNN: no)"


@pytest.mark.parametrize(
    ("name", "read"), [("sdbr_onednn", wanted.onednn), ("sdbr_tune", wanted.tune)]
)
def test_options_are_checked(monkeypatch, name, read):
    for value in ("fast", None):
        # Past the check of what is set: a variable of the environment does not go through it.
        monkeypatch.setitem(vars(chainer.global_config), name, value)
        with pytest.raises(sdbr.SettingError, match=f"{name} .*: expected .*, got {value!r}"):
            read()


def test_a_tie_is_ours(measured, onednn):
    measured[0].update(own=0.505, last=0.5)
    assert choose()[2].name == "own"


def test_a_way_that_takes_much_memory_takes_no_part(measured, onednn, monkeypatch):
    monkeypatch.setattr(Sequence, "scratch", convolution.SCRATCH_BYTES + 1)
    assert choose()[2].name == "own"
    assert measured[1] == [["own"]]
    with chainer.using_config("sdbr_onednn", "plain"):
        assert choose()[2].name == "oneDNN plain"


# --- the file ------------------------------------------------------------------------------------
def test_measurements_last(tmp_path):
    cache.Measurements({"a": "1"}, tmp_path).put("p", {"own": 0.25, "last": None})
    assert cache.Measurements({"a": "1"}, tmp_path).get("p") == {"own": 0.25, "last": None}
    assert cache.Measurements({"a": "2"}, tmp_path).get("p") == {}


def test_measurements_of_two_processes_are_both_kept(tmp_path):
    one, two = (cache.Measurements({}, tmp_path) for _ in range(2))
    one.put("p", {"own": 1.0})
    two.put("q", {"own": 2.0})
    third = cache.Measurements({}, tmp_path)
    assert (third.get("p"), third.get("q")) == ({"own": 1.0}, {"own": 2.0})


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"seconds": {}}', "not json", '{"about": 1, "seconds": {"p": 1}}']
)
def test_a_broken_file_counts_as_empty(tmp_path, text):
    first = cache.Measurements({}, tmp_path)
    first.put("p", {"own": 1.0})
    first.path.write_text(text)
    again = cache.Measurements({}, tmp_path)
    assert again.get("p") == {}
    again.put("q", {"own": 1.0})
    assert cache.Measurements({}, tmp_path).get("q") == {"own": 1.0}


@pytest.mark.parametrize("value", ["fast", -1.0, 0, "nan", [1]])
def test_a_figure_that_is_no_duration_is_not_believed(tmp_path, value):
    first = cache.Measurements({}, tmp_path)
    first.put("p", {"own": 1.0})
    data = json.loads(first.path.read_text())
    data["seconds"]["p"]["own"] = value
    first.path.write_text(json.dumps(data))
    assert cache.Measurements({}, tmp_path).get("p") == {}


def test_a_folder_that_is_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    kept = cache.Measurements({}, tmp_path / "file")
    kept.put("p", {"own": 1.0})
    assert kept.get("p") == {"own": 1.0}


def test_nothing_is_left_beside_the_file_and_old_builds_go(tmp_path):
    for i in range(cache.KEPT + 4):
        (tmp_path / f"measured-{i}.json").write_text("{}")
    kept = cache.Measurements({}, tmp_path)
    kept.put("p", {"own": 1.0})
    names = {path.name for path in tmp_path.iterdir()}
    assert kept.path.name in names
    assert len(names) == cache.KEPT


def test_where_the_file_lies(monkeypatch, tmp_path):
    monkeypatch.setenv("SDBR_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.setenv("SDBR_CACHE", "")
    assert cache_folder() is None
    monkeypatch.delenv("SDBR_CACHE")
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "sdbr"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(cache.os.path, "expanduser", lambda path: path)  # there is no home
    assert cache_folder() is None


# --- the race ------------------------------------------------------------------------------------
def test_race_drops_what_is_far_behind(monkeypatch):
    calls = []

    def seconds(kernel, ints, arrays, budget, runs, alone):
        assert alone
        calls.append(kernel)
        return [{"slow": 0.003, "a": 0.001, "b": 0.0012}[kernel]]

    monkeypatch.setattr(race, "kernel_seconds", seconds)
    best = race.race({name: (name, ()) for name in ("slow", "a", "b")}, [], 1)
    assert best == {"slow": 0.003, "a": 0.001, "b": 0.0012}
    assert calls == ["slow", "a", "b", *["a", "b"] * race.TURNS]


def test_race_of_slow_kernels_is_short(monkeypatch):
    calls = []

    def seconds(kernel, *_):
        calls.append(kernel)
        return [race.ENOUGH]

    monkeypatch.setattr(race, "kernel_seconds", seconds)
    race.race({"a": ("a", ()), "b": ("b", ())}, [], 1)
    assert calls == ["a", "b"] * 2


def test_operands_are_small_numbers():
    (x,) = race.operands([((40, 50), "f4")])
    assert x.shape == (40, 50) and np.isin(x, np.arange(-6, 7)).all()
