"""What others do while a stream records the kernels of a program."""

import contextlib
import gc
import threading
import warnings

import sdbr
from sdbr.backends.cuda._in_flight import in_flight
from sdbr.backends.cuda.recording.launching import Launching
from sdbr.base.errors import BackendError

import chainer
import pytest

from tests.conftest import ON
from tests.harness import device

from .failing import made, step
from .programs import Way

pytestmark = pytest.mark.skipif(ON == "gpu", reason="needs the driver without a device")


@pytest.fixture(autouse=True)
def audits_off():
    """An audit waits."""
    with chainer.using_config("sdbr_audit", "off"):
        yield


def test_what_goes_while_a_stream_records(monkeypatch):
    """Who lets a program go waits for the device, which breaks what is recorded: not meanwhile."""
    record, model, optimizer = Launching.record, *made(Way(True))
    step(model, optimizer, 0)
    programs = [type("Program", (), {})()]
    in_flight(device.device(0)).enlist(programs[0], 1)
    another = threading.Thread(target=programs.clear)

    def beside_another(self, *args):
        assert not gc.isenabled()
        if not another.ident:
            another.start()
            another.join(0.2)  # it would have come to its end by then
        return record(self, *args)

    monkeypatch.setattr(Launching, "record", beside_another)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step(model, optimizer, 1)
    another.join(60)
    assert not programs and gc.isenabled()
    assert "launched one by one" not in str(sdbr.explain(model))


def test_who_waits_for_the_device_while_a_stream_records(executables, monkeypatch):
    """CuPy does so for whoever asks it, in any thread: the next run records again."""
    record, waits = Launching.record, [True]

    def waiting(self, *args):
        if waits.pop() if waits else False:
            with device.device().current(), contextlib.suppress(BackendError):
                device.device().driver.call("cuCtxSynchronize")
        return record(self, *args)

    model, optimizer = made(Way(True))
    step(model, optimizer, 0)
    monkeypatch.setattr(Launching, "record", waiting)
    with pytest.warns(sdbr.SdbrWarning, match="CAPTURE_INVALIDATED"):
        step(model, optimizer, 1)
    step(model, optimizer, 2)
    assert not waits and executables[-1].recorded
    assert "launched one by one" not in str(sdbr.explain(model))
