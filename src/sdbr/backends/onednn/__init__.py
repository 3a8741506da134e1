"""oneDNN, where its library is found: primitives as kernels of programs.

:mod:`~sdbr.backends.onednn.library` finds it, :mod:`~sdbr.backends.onednn.primitives` makes its
objects, :mod:`~sdbr.backends.onednn.convolution` has the ways in which a convolution may run.
"""
