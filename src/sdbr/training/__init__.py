"""What a training is made of: its snapshots, its warm-up, what it is fed with."""

from sdbr.training.multiprocess_iterator import MultiprocessIterator
from sdbr.training.resume import ResumeState
from sdbr.training.snapshots import load_snapshot, save_snapshot
from sdbr.training.updater import StandardUpdater
from sdbr.training.warm_up import warm_up

__all__ = [
    "MultiprocessIterator",
    "ResumeState",
    "StandardUpdater",
    "load_snapshot",
    "save_snapshot",
    "warm_up",
]
