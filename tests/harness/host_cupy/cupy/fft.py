"""``cupy.fft``: NumPy's."""

import numpy as np

from . import convert

NAMES = [
    "fft",
    "fft2",
    "fftn",
    "ifft",
    "ifft2",
    "ifftn",
    "rfft",
    "rfft2",
    "rfftn",
    "irfft",
    "irfft2",
    "irfftn",
    "hfft",
    "ihfft",
    "fftfreq",
    "rfftfreq",
    "fftshift",
    "ifftshift",
]


def _make(name):
    function = getattr(np.fft, name)

    def call(*args, **kwargs):
        convert.check_host((*args, *kwargs.values()))
        return convert.call(function, *args, **kwargs)

    call.__name__ = name
    return call


globals().update((name, _make(name)) for name in NAMES)
