"""The CUDA driver by ctypes, on one that has no device."""

import ctypes
import ctypes.util
import os
import threading

from sdbr.backends.cuda.executable import CudaExecutable
from sdbr.base.errors import BackendError
from sdbr.devices.driver import LIBRARY, Device, Driver
from sdbr.program._memory import Memory
from sdbr.program.builder import Builder
from sdbr.program.program import assemble

import numpy as np
import pytest

from tests.harness import device


@pytest.fixture
def fake():
    """The driver; what a test sets in it is as before afterwards."""
    names = ("devices", "most_bytes")
    before = [device.setting(name).value for name in names]
    yield device.device()
    for name, value in zip(names, before, strict=True):
        device.setting(name).value = value


def path():
    return device.device().driver._library._name


def test_a_device_says_what_it_is(fake):
    assert (fake.name, fake.architecture, fake.driver.version) == ("fake 0", "sm_90", (13, 0))


@pytest.mark.skipif(ctypes.util.find_library("cuda") is not None, reason="a CUDA driver is here")
def test_without_a_driver():
    with pytest.raises(BackendError, match=f"no CUDA driver: {LIBRARY}"):
        Driver()


def test_a_library_that_is_none(fake):
    with pytest.raises(BackendError, match=r"is too old: .*undefined symbol: cuInit"):
        Driver(os.fspath(device.every()[0]))


def test_no_such_device(fake):
    with pytest.raises(BackendError, match="no device 1: the driver has 1"):
        Device(fake.driver, 1)
    device.setting("devices").value = 0
    with pytest.raises(BackendError, match="cuInit: CUDA_ERROR_NO_DEVICE, in words"):
        Driver(path())


def test_errors_name_the_function_and_what_it_said(fake):
    with fake.current():
        with pytest.raises(BackendError, match="cuModuleLoadData: CUDA_ERROR_INVALID_IMAGE"):
            fake.load(b"nothing")
        module = fake.load(os.fsencode(device.every()[0]))
        with pytest.raises(BackendError, match="cuModuleGetFunction: CUDA_ERROR_NOT_FOUND"):
            module.function("nothing")
        device.setting("most_bytes").value = device.setting("bytes").value + 100
        fake.allocate(100)
        with pytest.raises(BackendError, match="cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY"):
            fake.allocate(101)
    with pytest.raises(BackendError, match="cuMemAlloc_v2: CUDA_ERROR_INVALID_CONTEXT"):
        fake.allocate(1)
    with pytest.raises(BackendError, match="cuCtxPopCurrent_v2: CUDA_ERROR_INVALID_CONTEXT"):
        fake.driver.call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))


def test_memory_is_given_back_by_whoever_lets_go(fake):
    with fake.current():
        before = device.setting("bytes").value
        kept = [fake.allocate(1000)]
        assert device.setting("bytes").value == before + 1000
    thread = threading.Thread(target=kept.clear)
    thread.start()
    thread.join()
    assert device.setting("bytes").value == before


def test_a_capture_ends_whatever_happens(fake):
    with fake.current():
        stream = fake.stream()
        with pytest.raises(KeyError), stream.capture() as made:
            raise KeyError
        assert made == []
        stream.synchronize()
        graphs = device.setting("graphs").value
        with stream.capture() as made:
            pass
        made[0].launch(stream)
        assert device.setting("graphs").value == graphs + 1


def program_of(op, shapes):
    builder = Builder()
    rows = [builder.table.bound(shape, "f4", "x") for shape in shapes]
    builder.emit(op, rows[:-1], rows[-1:], (), ())
    return assemble(builder.instructions, builder.table, "test"), Memory(len(rows), 0)


def test_an_op_without_a_kernel_is_an_error(fake):
    program, memory = program_of("prod", [(2, 3, 4), (2, 4)])
    with pytest.raises(BackendError, match="no kernel for GPUs: 0 prod"):
        CudaExecutable(program, memory, fake, device.machine_code)


def test_a_slot_without_an_array_is_an_error(fake):
    program, memory = program_of("exp", [(5,), (5,)])
    executable = CudaExecutable(program, memory, fake, device.machine_code)
    memory.bind(0, np.zeros(5, "f"))
    with pytest.raises(ValueError, match="slot 1 is not bound"):
        executable.run()
    y = np.zeros(5, "f")
    memory.bind(1, y)
    executable.run()
    assert y.tolist() == [1] * 5


def test_programs_run_on_several_threads(fake):
    """Each makes the device its own for as long as it runs."""
    got = []

    def run():
        program, memory = program_of("exp", [(5,), (5,)])
        y = np.zeros(5, "f")
        memory.bind(0, np.zeros(5, "f"))
        memory.bind(1, y)
        CudaExecutable(program, memory, fake, device.machine_code).run()
        got.append(y.tolist())

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
        thread.join()  # kernels of the driver without a device share their fibers
    assert got == [[1] * 5] * 3
