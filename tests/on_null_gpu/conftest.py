"""These tests run where a GPU that runs nothing is in place (tests/test_on_null_gpu.py).

Programs of sdbr's run on the driver without a device: arrays lie on the host.
"""

from tests.conftest import ON
from tests.on_cupy.conftest import chained, executables, races  # noqa: F401

collect_ignore_glob = [] if ON == "null" else ["test_*.py"]
