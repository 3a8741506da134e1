"""How fast a GPU copies and multiplies at best: what all other times are held against."""

from __future__ import annotations

import ctypes

from sdbr.backends.cuda.races import Races
from sdbr.cli.gpu_check import job as jobs
from sdbr.cli.gpu_check.job import Job
from sdbr.cli.gpu_check.timing import in_graph, timed
from sdbr.devices.cublaslt import Handle, Product, cublaslt
from sdbr.devices.driver import Device, Stream

import numpy as np

COPIED = 1 << 30  # bytes
COPIES = 8
SIDE = 8192  # of the matrices that are multiplied
PRODUCTS = 4


def measure(job: Job) -> None:
    """Measure both rates."""
    device = jobs.open_device(job.ordinal)
    with device.current():
        job.note("device", facts(device))
        stream = device.stream()
        job.measure("copy_bytes_per_s", lambda: copy_rate(device, stream))
        for name, tf32 in (("fp32", False), ("tf32", True)):
            job.measure(f"{name}_flop_per_s", lambda x=tf32: product_rate(device, stream, x))


def facts(device: Device) -> dict[str, object]:
    """What the driver says of a device."""
    numbers = {"multiprocessors": 16, "l2_bytes": 38, "clock_khz": 13, "memory_clock_khz": 36}
    found: dict[str, object] = {
        "name": device.name,
        "architecture": device.architecture,
        "driver": ".".join(map(str, device.driver.version)),
    }
    for name, attribute in numbers.items():
        number = ctypes.c_int()
        device.driver.call("cuDeviceGetAttribute", ctypes.byref(number), attribute, device.ordinal)
        found[name] = number.value
    return found


def copy_rate(device: Device, stream: Stream) -> float:
    """Bytes read and written in a second, of large copies from the device to itself."""
    here, there = device.allocate(COPIED), device.allocate(COPIED)
    stream.fill(here.address, COPIED, 1)

    def copy() -> None:
        device.driver.call(
            "cuMemcpyDtoDAsync_v2",
            ctypes.c_uint64(there.address),
            ctypes.c_uint64(here.address),
            ctypes.c_size_t(COPIED),
            stream.handle,
        )

    return 2 * COPIED / timed(copy, stream, COPIES)[1]


def product_rate(device: Device, stream: Stream, tf32: bool) -> float:
    """Operations in a second, of large products of random numbers by cuBLASLt."""
    library = Handle(cublaslt(device.driver.version[0]), device)
    product = Product("f4", SIDE, SIDE, SIDE, tf32=tf32)
    buffers = [device.allocate(4 * SIDE * SIDE) for _ in range(3)]
    for k, buffer in enumerate(buffers[:2]):
        numbers = np.random.default_rng(k).standard_normal(SIDE * SIDE, np.float32)
        device.write(buffer.address, numbers)
    run = by_library(library, stream, product, [buffer.address for buffer in buffers])
    if run is None:
        raise ValueError(f"cuBLASLt does not do {product}")
    return 2 * SIDE**3 / in_graph(run, stream, 1, PRODUCTS)


def by_library(handle: Handle, stream: Stream, product: Product, addresses: list[int]):
    """What asks the library for a product of these operands; None: it does not do it."""
    matmul, allocate = handle.product(product), handle.device.allocate
    algorithm = Races(handle, None).algorithm(matmul, allocate, stream, timed=True)
    if algorithm is None:
        return None
    workspace = allocate(algorithm.workspace)
    return lambda stream: matmul.run(stream, algorithm, *addresses, workspace.address)
