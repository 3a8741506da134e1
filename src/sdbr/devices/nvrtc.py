"""NVRTC, the compiler of CUDA sources: found among the libraries of this Python, called by ctypes.

It needs no device and no driver.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import glob
import os
from collections.abc import Iterator, Mapping, Sequence

from sdbr.base.errors import BackendError
from sdbr.devices import libraries

#: Where wheels put it, below a folder of sys.path; the newest first.
_WHEELS = ("nvidia/cu*/lib", "nvidia/cuda_nvrtc/lib")
_BUILTINS = "libnvrtc-builtins.so*"
_LINES = 12  # of a log that an error shows


class Nvrtc:
    """One NVRTC library.

    Parameters
    ----------
    path : str
        Its file.

    Attributes
    ----------
    version : tuple of int
        Of CUDA: (13, 0).
    """

    def __init__(self, path: str) -> None:
        self.path = path
        # It looks for a second library by name alone, which lies beside it.
        for builtins in glob.glob(os.path.join(os.path.dirname(path), _BUILTINS)):
            with contextlib.suppress(OSError):
                ctypes.CDLL(builtins, mode=ctypes.RTLD_GLOBAL)
        self._library = ctypes.CDLL(path)
        self._library.nvrtcGetErrorString.restype = ctypes.c_char_p
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._call("nvrtcVersion", ctypes.byref(major), ctypes.byref(minor))
        self.version = (major.value, minor.value)

    def compile(
        self,
        source: str,
        headers: Mapping[str, str],
        architecture: str,
        options: Sequence[str] = (),
    ) -> tuple[bytes, str]:
        """Machine code of a source.

        Parameters
        ----------
        source : str
            CUDA C++.
        headers : mapping of str to str
            Name, as it stands behind ``#include``, to text.
        architecture : str
            ``'sm_90'``.
        options : sequence of str
            Further options of NVRTC.

        Returns
        -------
        bytes, str
            A cubin, and what the compiler said.

        Raises
        ------
        BackendError
            With the first lines of what the compiler said.
        """
        program = ctypes.c_void_p()
        texts = (ctypes.c_char_p * len(headers))(*(t.encode() for t in headers.values()))
        names = (ctypes.c_char_p * len(headers))(*(name.encode() for name in headers))
        self._call(
            "nvrtcCreateProgram",
            ctypes.byref(program), source.encode(), b"sdbr.cu", len(headers), texts, names,
        )  # fmt: skip
        try:
            words = [f"--gpu-architecture={architecture}", *options]
            given = (ctypes.c_char_p * len(words))(*(word.encode() for word in words))
            status = self._library.nvrtcCompileProgram(program, len(words), given)
            log = self._text(program, "ProgramLog").decode(errors="replace").rstrip("\0\n ")
            if status:
                lines = [line for line in log.splitlines() if line.strip()][:_LINES]
                said = "\n".join([self._message(status), *lines])
                raise BackendError(f"NVRTC {self.name} cannot compile for {architecture}: {said}")
            return self._text(program, "CUBIN"), log
        finally:
            self._library.nvrtcDestroyProgram(ctypes.byref(program))

    @property
    def name(self) -> str:
        """The version as text."""
        return ".".join(map(str, self.version))

    def _text(self, program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        self._call(f"nvrtcGet{what}Size", program, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        self._call(f"nvrtcGet{what}", program, text)
        return text.raw

    def _call(self, name: str, *args) -> None:
        status = getattr(self._library, name)(*args)
        if status:
            raise BackendError(f"{name} of {self.path}: {self._message(status)}")

    def _message(self, status: int) -> str:
        return self._library.nvrtcGetErrorString(status).decode()


def candidates() -> Iterator[str]:
    """Files that may be NVRTC: those of wheels, of a CUDA toolkit, of the system."""
    return libraries.candidates("nvrtc", _WHEELS)


@functools.cache
def nvrtc() -> Nvrtc:
    """The NVRTC of this Python.

    Raises
    ------
    BackendError
        If there is none, or none that can be loaded.
    """
    reasons = []
    for path in candidates():
        try:
            return Nvrtc(path)
        except (OSError, AttributeError, BackendError) as error:
            reasons.append(f"{path}: {error}")
    raise BackendError(
        "NVRTC was not found: pip install nvidia-cuda-nvrtc, or set CUDA_PATH to a CUDA toolkit"
        + "".join(f"; {reason}" for reason in reasons)
    )
