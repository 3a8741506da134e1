"""What is wrong is named: the argument, what was expected, what came; and nothing was done."""

import os

import sdbr

import chainer
import chainer.links as L
import pytest

from .networks import Net, batch, trained

MODEL, OPTIMIZER = trained()
with sdbr.profile(MODEL) as TIMES:
    OPTIMIZER.update(MODEL, *batch())
MODEL(*batch())
MODEL(*batch())


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: sdbr.explain(L.Linear), TypeError, "obj: .*got the class Linear"),
        (lambda: sdbr.profile(batch), TypeError, "obj: .*the function batch, which is not static"),
        (lambda: sdbr.explain(MODEL, 3), TypeError, "run: expected a function .*got int"),
        (lambda: sdbr.explain(MODEL, batch, 3), TypeError, "instead: expected a function .*int"),
        (lambda: sdbr.debug(L.Linear(3, 3), 1), ValueError, "model: no static call was made"),
        (lambda: sdbr.debug(chainer.optimizers.SGD(), 1), ValueError, "model: no static call"),
        (
            lambda: sdbr.compare_backends(MODEL, *batch(), tolerance="a"),
            ValueError,
            "tolerance: expected a number from 0 on, or None, got 'a'",
        ),
        (lambda: sdbr.compare_backends(MODEL, *batch(), tolerance=-1), ValueError, "tolerance: "),
        (lambda: sdbr.debug(MODEL, *batch()).step(-1), ValueError, "n: expected .*got -1"),
        (lambda: sdbr.debug(MODEL, *batch()).step("a"), TypeError, "'str'"),
        (lambda: sdbr.draw(MODEL, "x.svg", depth=-1), ValueError, "depth: expected 0 or more"),
        (lambda: sdbr.draw(MODEL, "x.svg", depth="a"), TypeError, "'str'"),
        (
            lambda: sdbr.draw(MODEL, "x.png"),
            ValueError,
            "path: expected a name that ends in one of '.svg', '.dot', '.gv', got 'x.png'",
        ),
        (lambda: sdbr.draw(MODEL, None), TypeError, "NoneType"),
    ],
)
def test_what_is_wrong_is_named(call, error, text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=text):
        call()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "write",
    [
        lambda path: sdbr.explain(MODEL).html(path),
        lambda path: sdbr.draw(MODEL, path),
        TIMES.chrome_trace,
        TIMES.speedscope,
    ],
)
def test_a_number_is_no_path(write, tmp_path):
    """It would be taken for an open file, and closed."""
    number = os.open(tmp_path / "file", os.O_CREAT | os.O_WRONLY)
    with pytest.raises(TypeError, match="int"):
        write(number)
    os.close(number)  # is still open
    assert not (tmp_path / "file").read_bytes()


def test_at_the_end_of_a_debugger():
    d = sdbr.debug(MODEL, *batch())
    assert d.step(0) == ""
    d.run()
    assert d.step() == ""
    with pytest.raises(ValueError, match="where: expected an op that is left, and all have run"):
        d.run_to(0)


def test_one_of_each_has_no_plural():
    model = sdbr.static_graph(Net())
    model(batch()[0])
    model(batch(6)[0])
    text = str(sdbr.explain(model))
    assert "used 1 call ago" in text and "traced anew 1 time, because of" in text
    with sdbr.profile(model) as times:
        model(batch()[0])
    assert "1 run," in str(times) and "of 1 run>" in repr(times)
