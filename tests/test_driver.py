"""The CUDA driver by ctypes, on one that has no device."""

import ctypes
import ctypes.util
import os

from sdbr.backends.cuda._in_flight import in_flight
from sdbr.backends.cuda.executable import CudaExecutable
from sdbr.backends.cuda.words import KERNEL, WordsStruct
from sdbr.base.errors import BackendError, DriverError, OutOfMemoryError
from sdbr.cli.gpu_check.empty import EMPTY, OVERLAPPING, SOURCE, Nothing
from sdbr.devices import signatures
from sdbr.devices.driver import LIBRARY, Device, Driver
from sdbr.devices.statuses import NOT_READY
from sdbr.program._memory import Memory
from sdbr.program.builder import Builder
from sdbr.program.program import assemble

import numpy as np
import pytest

from tests.harness import device
from tests.harness.threads import join, start


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
    join(start(kept.clear))
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


@pytest.fixture
def streams(fake):
    """Two of them, and a kernel with its parameters."""
    with fake.current():
        module = fake.load(os.fsencode(device.every()[0]))
        function = module.function(KERNEL)
        yield (
            fake.stream(),
            fake.stream(),
            lambda stream, **more: stream.launch(function, 1, 1, WordsStruct(), **more),
        )
        device.setting("unwaited").value = 0


def forked(first, second, then=lambda: None):
    """The second stream records what the first one does from here on."""
    event = first.device.event(timed=False)
    event.record(first)
    second.wait_for(event)
    then()
    event = first.device.event(timed=False)
    event.record(second)
    first.wait_for(event)


def test_two_streams_record_one_graph(streams):
    first, second, launch = streams
    nodes = device.setting("nodes").value
    with first.capture() as made:
        launch(first)
        forked(first, second, lambda: (launch(first), launch(second)))
        launch(first)
    assert device.setting("nodes").value == nodes + 4
    launches = device.setting("launches").value
    made[0].launch(first)
    assert device.setting("launches").value == launches + 4
    second.synchronize()  # records no more


def test_a_stream_that_is_not_joined_spoils_the_graph(streams):
    first, second, launch = streams
    with pytest.raises(DriverError, match="CAPTURE_UNJOINED"), first.capture():
        event = first.device.event(timed=False)
        event.record(first)
        second.wait_for(event)
        launch(second)
    second.synchronize()


def test_other_events_have_no_place_in_a_capture(streams):
    first, second, _ = streams
    event = first.device.event()
    event.record(second)
    with pytest.raises(DriverError, match="cuStreamWaitEvent: error 905"), first.capture():
        first.wait_for(event)
    with pytest.raises(DriverError, match="cuEventRecord"), first.capture():
        event.record(first)  # nobody could tell when it was reached
    event.record(first)
    assert event.is_reached()


def test_events_are_asked_without_waiting(streams):
    first, _, launch = streams
    event, end = first.device.event(), first.device.event()
    device.setting("late").value = 1
    try:
        event.record(first)
        launch(first)
        end.record(first)
        waits = device.setting("waits").value
        assert not end.is_reached() and not event.is_reached()
        assert device.setting("waits").value == waits
        first.synchronize()
        assert end.is_reached() and end.seconds_since(event) == 0
    finally:
        device.setting("late").value = 0


def test_a_kernel_that_begins_early_has_to_wait_itself(streams):
    """That which writes words does not: none of the package's is launched early without a wait."""
    first, _, launch = streams
    with first.capture() as made:
        launch(first)
        launch(first, early=True)
    early, unwaited = device.setting("early").value, device.setting("unwaited").value
    made[0].launch(first)
    assert device.setting("early").value == early + 1
    assert device.setting("unwaited").value == unwaited + 1


def test_early_launches_have_one_kernel_in_front_of_them_at_most(streams):
    first, second, launch = streams
    with pytest.raises(DriverError, match="cuLaunchKernelEx"), first.capture():
        forked(first, second, lambda: (launch(first), launch(second)))
        launch(first, early=True)
    launch(first, early=True)  # without a graph there is nothing to say against it


HEADERS = next(
    (x for x in ("/usr/local/cuda/include", "/usr/include") if os.path.exists(f"{x}/cuda.h")), None
)


@pytest.mark.skipif(HEADERS is None, reason="cuda.h is missing")
def test_structs_are_those_of_the_header():
    text = """
    #include <stddef.h>
    #include <cuda.h>
    const size_t numbers[] = {sizeof(CUlaunchAttribute), offsetof(CUlaunchAttribute, value),
        sizeof(CUlaunchConfig), offsetof(CUlaunchConfig, sharedMemBytes),
        offsetof(CUlaunchConfig, hStream), offsetof(CUlaunchConfig, attrs),
        offsetof(CUlaunchConfig, numAttrs), CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
        CUDA_ERROR_NOT_READY};
    """
    made = ctypes.CDLL(str(device.library(text, {}, HEADERS)))
    attribute, config = signatures.LaunchAttribute, signatures.LaunchConfig
    assert list((ctypes.c_size_t * 9).in_dll(made, "numbers")) == [
        ctypes.sizeof(attribute), attribute.value.offset, ctypes.sizeof(config),
        config.shared.offset, config.stream.offset, config.attributes.offset, config.count.offset,
        signatures.early_launch(1, 1, None).attributes[0].id, NOT_READY,
    ]  # fmt: skip


STATUSES = {
    2: "OUT_OF_MEMORY, in words; smaller batches",
    100: "NO_DEVICE, in words; there is no GPU, or CUDA_VISIBLE_DEVICES hides it",
    200: r"INVALID_IMAGE.*up to 13\.0.*newer driver, or an NVRTC",
    209: r"NO_BINARY_FOR_GPU.*up to 13\.0.*newer driver, or an NVRTC",
    222: r"UNSUPPORTED_PTX_VERSION.*up to 13\.0.*newer driver, or an NVRTC",
    214: "ECC_UNCORRECTABLE.*context is lost.*start it again",
    700: "ILLEGAL_ADDRESS.*context is lost.*CUDA_LAUNCH_BLOCKING",
    709: "CONTEXT_IS_DESTROYED.*context is lost",
    719: "LAUNCH_FAILED.*context is lost",
    999: "error 999.*context is lost",
    12345: "error 12345, in words$",
}


@pytest.mark.parametrize("status", STATUSES)
def test_what_a_status_means_and_what_helps(status, fake):
    with pytest.raises(DriverError, match=f"a call: .*{STATUSES[status]}") as found:
        fake.driver.refuse("a call", status)
    assert found.value.status == status
    assert isinstance(found.value, BackendError)
    assert isinstance(found.value, OutOfMemoryError) == isinstance(found.value, MemoryError)
    assert isinstance(found.value, MemoryError) == (status == 2)


@pytest.mark.parametrize(
    "name",
    [
        "cuInit", "cuDriverGetVersion", "cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName",
        "cuDeviceGetAttribute", "cuDevicePrimaryCtxRetain",
    ],
)  # fmt: skip
def test_each_call_before_there_is_a_device(name, fake):
    with device.failing(name, 1, 999), pytest.raises(BackendError, match=f"{name}: error 999"):
        Device(Driver(path()))
    assert Device(Driver(path())).ordinal == 0


def test_a_capture_that_cannot_end_keeps_the_error_in_it(fake):
    before = device.balance()
    with fake.current():
        stream = fake.stream()
        with (
            device.failing("cuStreamEndCapture", 1, 900),
            pytest.raises(KeyError),
            stream.capture(),
        ):
            raise KeyError
        stream.synchronize()
    del stream
    assert device.balance() == before


def test_what_does_not_compile(fake):
    """The first lines of what the compiler said, the program, its ops, the device."""

    def refuse(text, headers):
        raise BackendError("NVRTC 13.0 cannot compile for sm_90: no such thing")

    program, memory = program_of("exp", [(5,), (5,)])
    in_flight(fake)  # is there once for the device
    before = device.balance()
    text = r"for sm_90: no such thing; in test, op 0 exp .*float32\[5\].*, on GPU 0 \(fake 0\)"
    with pytest.raises(BackendError, match=text):
        CudaExecutable(program, memory, fake, refuse)
    assert device.balance() == before


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

    for _ in range(3):  # kernels of the driver without a device share their fibers
        join(start(run))
    assert got == [[1] * 5] * 3


def launched(fake):
    """What launches a kernel that does nothing, and a stream."""
    module = fake.load(device.machine_code(*SOURCE))
    function, stream = module.function(EMPTY), fake.stream()
    return module, stream, lambda on: on.launch(function, 1, 32, Nothing())


def test_graphs_have_nodes_for_kernels_and_copies(fake):
    """Of memory that is pinned: what else lies on the host may be elsewhere when it runs."""
    with fake.current():
        _, stream, launch = launched(fake)
        pinned, buffer = fake.pin(64), fake.allocate(64)
        ctypes.memset(pinned.address, 5, 64)
        with stream.capture() as made:
            launch(stream)
            fake.driver.call(
                "cuMemcpyHtoDAsync_v2", buffer.address, pinned.address, 64, stream.handle
            )
        assert made[0].nodes == 2
        made[0].launch(stream)
        found = np.zeros(64, np.int8)
        stream.to_host(found, buffer.address)
        stream.synchronize()
        assert (found == 5).all()
        with pytest.raises(DriverError, match="CAPTURE_UNSUPPORTED"), stream.capture():
            stream.to_device(buffer.address, np.ones(64, np.int8))


def test_branches_of_graphs(fake):
    """Another stream records for the first one, until that waits for it."""
    with fake.current():
        _, stream, launch = launched(fake)
        other = fake.stream()
        with stream.capture() as made:
            fake.order(stream.handle.value, other.handle.value)
            launch(other)
            launch(stream)
            fake.order(other.handle.value, stream.handle.value)
            launch(stream)
        assert made[0].nodes == 3
        launches = device.setting("launches").value
        launch(other)  # records no more
        assert device.setting("launches").value == launches + 1
        with pytest.raises(DriverError, match="UNJOINED"), stream.capture():
            fake.order(stream.handle.value, other.handle.value)
            launch(other)
        launch(other)
        assert device.setting("launches").value == launches + 2


def test_programmatic_launches(fake):
    with fake.current():
        module, stream, _ = launched(fake)
        before = device.setting("programmatic").value
        with stream.capture() as made:
            stream.launch(module.function(EMPTY), 1, 32, Nothing(), early=True)
            stream.launch(module.function(OVERLAPPING), 1, 32, Nothing(), early=True)
        assert made[0].nodes == 2
        assert device.setting("programmatic").value == before + 2
