"""Products by our own kernels and by cuBLASLt: where the library is to take over."""

from __future__ import annotations

from sdbr.base.errors import BackendError
from sdbr.cli.gpu_check import job as jobs
from sdbr.cli.gpu_check.job import Job
from sdbr.cli.gpu_check.launched import Operands, launcher
from sdbr.cli.gpu_check.rates import by_library
from sdbr.cli.gpu_check.timing import in_graph
from sdbr.devices.cublaslt import Handle, Product, cublaslt
from sdbr.devices.driver import Device
from sdbr.ops.table import BY_NAME

#: Rows, columns and depth; how many of them are one graph, and how often it is launched.
SIZES = tuple((n, m, k) for n in (32, 128, 512) for m in (64, 512) for k in (64, 256, 1024))
IN_A_GRAPH = 16
LAUNCHES = 16


def measure(job: Job) -> None:
    """Microseconds of products in float32, one after another.

    Where the two meet is what `sdbr.backends.cuda.products.LEAST` should be.
    """
    device = jobs.open_device(job.ordinal)
    handle, missing = None, ""
    try:
        handle = Handle(cublaslt(device.driver.version[0]), device)
    except BackendError as error:
        missing = str(error)
    with device.current():
        for size in SIZES:
            name = "x".join(map(str, size))
            job.measure(name, lambda s=size: both(device, handle, missing, *s))


def both(device: Device, handle: Handle | None, missing: str, n: int, m: int, depth: int) -> dict:
    """One size by both; in the place of a time, why there is none."""
    ins = Operands(device, [((n, depth), "f4"), ((depth, m), "f4")])
    outs = Operands(device, [((n, m), "f4")])
    own, stream = launcher(device, BY_NAME["gemm"], ins, outs, (0, 0, 0)), device.stream()
    found = {"own_us": 1e6 * in_graph(own, stream, IN_A_GRAPH, LAUNCHES)}
    if handle is None:
        return {**found, "library": missing}
    product = Product("f4", n, m, depth)
    library = by_library(handle, stream, product, ins.addresses + outs.addresses)
    if library is None:
        return {**found, "library": "refused"}
    return {**found, "library_us": 1e6 * in_graph(library, stream, IN_A_GRAPH, LAUNCHES)}
