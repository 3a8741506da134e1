"""What the CUDA driver means by its statuses, and what helps."""

from __future__ import annotations

OUT_OF_MEMORY = 2
NOT_READY = 600
CAPTURE_INVALIDATED = 901

#: Deinitialized; errors of memory and links; a kernel that went wrong; destroyed; unknown.
LOST = frozenset({4, 214, 220, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 999})

#: An image that is invalid, or has nothing for this GPU; PTX that is invalid, or too new.
_UNFIT = frozenset({200, 209, 218, 222})

_HINTS = {
    OUT_OF_MEMORY: (
        "smaller batches take less memory; cupy.get_default_memory_pool().free_all_blocks() gives "
        "back what CuPy holds and does not use"
    ),
    34: "the library is a stub of a CUDA toolkit: the driver itself has to be found before it",
    100: "there is no GPU, or CUDA_VISIBLE_DEVICES hides it",
    701: "the kernel needs more registers than this GPU has for a block",
    803: "the driver's library is of another version than its kernel module: restart the machine",
}


def hint(status: int, version: tuple[int, int]) -> str:
    """What a status means for the user and what helps; empty where its name says all.

    Parameters
    ----------
    status : int
    version : tuple of int
        The newest CUDA that the driver can run.
    """
    if status in LOST:
        return (
            "the context is lost, with everything in the memory of the GPU, and nothing on it can "
            "be used by this process any more: start it again, from the last snapshot. A launch "
            "before this call may have caused it; CUDA_LAUNCH_BLOCKING=1 shows which"
        )
    if status in _UNFIT:
        newest = ".".join(map(str, version))
        return (
            f"the driver runs CUDA up to {newest}, and the kernels may have been compiled by a "
            "newer NVRTC: install a newer driver, or an NVRTC that is no newer than the driver; "
            "or the file that they were kept in is broken: remove the folder cuda in SDBR_CACHE"
        )
    return _HINTS.get(status, "")
