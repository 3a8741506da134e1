"""In which form the kernels of a program are launched: ``chainer.config.sdbr_launch``.

All forms launch the same kernels with the same results; they differ in what waits for what.
"""

from __future__ import annotations

import dataclasses

from sdbr.backends.cpu.tuning.wanted import tune
from sdbr.base.errors import BackendError
from sdbr.base.settings import entry
from sdbr.devices.driver import Device


@dataclasses.dataclass(frozen=True)
class Form:
    """A form of a graph.

    Attributes
    ----------
    name : str
    branches : bool
        Kernels wait only for those that they must wait for.
    early : bool
        A kernel may begin before the one in front of it has ended, and waits for that itself.
    """

    name: str
    branches: bool = False
    early: bool = False


#: A graph whose kernels run one after the other: what is taken until something else was faster.
GRAPH = Form("graph")
FORMS = {
    form.name: form
    for form in (
        GRAPH,
        Form("branches", branches=True),
        Form("programmatic", early=True),
        Form("programmatic branches", branches=True, early=True),
    )
}
#: The fastest form on this device; kernels one by one, without a graph.
AUTO, KERNELS = "auto", "kernels"
NAMES = (AUTO, KERNELS, *FORMS)


def wanted(device: Device) -> str:
    """What the setting says.

    Raises
    ------
    SettingError
        If it is none of `NAMES`.
    BackendError
        If the device, or its driver, does not have that form.
    """
    value = entry("sdbr_launch")
    if value in FORMS and FORMS[value].early and not device.launches_early:
        raise BackendError(
            f"sdbr_launch={value!r} needs a GPU of architecture sm_90 or later and a driver for "
            f"CUDA 12.3 or later; this is {device.architecture} with "
            f"{'.'.join(map(str, device.driver.version))}"
        )
    return value


def others(name: str, device: Device) -> list[Form]:
    """The forms that are timed beside `GRAPH`: none unless `name` is ``'auto'``."""
    if name != AUTO or not tune():
        return []
    return [x for x in FORMS.values() if x != GRAPH and (device.launches_early or not x.early)]
