"""oneDNN, where its library is found: primitives as kernels of programs.

``library`` finds it, ``primitives`` makes its objects, ``convolution`` has the ways in which a
convolution may run, ``_onednn`` runs sequences of primitives as one op.
"""
