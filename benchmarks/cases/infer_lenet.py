"""One image through LeNet."""

from benchmarks.cases.lenet import specs
from benchmarks.cases.network import NetworkCase

CASE = NetworkCase(
    name="infer_lenet",
    title="lenet, forward only",
    kind="infer",
    batch=1,
    shape=(1, 28, 28),
    classes=10,
    specs=specs,
    of="lenet",
)
