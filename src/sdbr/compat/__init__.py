"""The only place where Chainer is patched.

``install()`` imports Chainer with every fix that the present Python, NumPy, SciPy, h5py and
protobuf make necessary; ``applied_fixes()`` names those that took effect. The other names are
hooks for the rest of sdbr: ``PatchSet`` for patches that come and go,
``LINK_VERSION`` for a number that changes whenever an attribute of any link does.
"""

from sdbr.compat.installation import applied_fixes, install
from sdbr.compat.link_version import LINK_VERSION
from sdbr.compat.patches import PatchSet
from sdbr.compat.table import FIXES

__all__ = [
    "FIXES",
    "LINK_VERSION",
    "PatchSet",
    "applied_fixes",
    "install",
]
