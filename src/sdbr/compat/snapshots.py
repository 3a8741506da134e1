"""Fixes for snapshots of trainings."""

from __future__ import annotations

import os
import warnings
import zipfile
from types import ModuleType

from sdbr.base.errors import SdbrWarning
from sdbr.compat.fix import FunctionFix, wrap

import numpy as np


def _fix_writers(module: ModuleType) -> None:
    def make(call):
        def copied(self, filename, outdir, target):
            # By the time that the worker looks, the training has gone on in these very arrays.
            return call(self, filename, outdir, {k: np.array(v) for k, v in target.items()})

        return copied

    for writer in (module.StandardWriter, module.QueueWriter):
        wrap(writer, "__call__", make)


WRITERS = FunctionFix(
    name="snapshot-writers",
    module="chainer.training.extensions.snapshot_writers",
    reason="writers of threads and queues save the arrays of later iterations",
    stacks="any",
    needed=lambda stack: True,
    apply=_fix_writers,
)


def _fix_text(module: ModuleType) -> None:
    from chainer import serializers

    def make(call):
        def text(self, key, value):
            kind = getattr(value, "dtype", None)
            if isinstance(value, str) or (kind is not None and kind.kind == "U"):
                text = np.asarray(value, dtype=object)
                dtype = module.h5py.string_dtype()
                self.group.create_dataset(key, data=text if text.ndim else text[()], dtype=dtype)
                return value
            return call(self, key, value)

        return text

    def make_save(save):
        def with_text(filename, obj, compression=4):
            if not isinstance(obj, dict):
                save(filename, obj, compression)
                return
            # What writers of snapshots are given: all that was serialized, by name.
            module._check_available()
            with module.h5py.File(filename, "w") as file:
                serializer = module.HDF5Serializer(file, compression)
                for key, value in obj.items():
                    array = np.asarray(value)
                    is_none = array.dtype == object and array[()] is None
                    serializer("/" + key.lstrip("/"), None if is_none else array)

        return with_text

    wrap(module.HDF5Serializer, "__call__", make)
    wrap(module, "save_hdf5", make_save)
    serializers.save_hdf5 = module.save_hdf5


TEXT = FunctionFix(
    name="hdf5-text-written",
    module="chainer.serializers.hdf5",
    reason="h5py does not take NumPy's text, so that no trainer can be saved",
    stacks="any with h5py",
    needed=lambda stack: stack.h5py is not None,
    apply=_fix_text,
)


def is_readable(path: str) -> bool:
    """Whether a file is an archive whose members are all there."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.testzip() is None
    except Exception:  # what a damaged archive leads to, `zipfile` does not say
        return False


def _fix_autoload(module: ModuleType) -> None:
    def make(find):
        def readable(fmt, path):
            files = [name for _, name in module._find_snapshot_files(fmt, path)]
            for name in reversed(files):
                if is_readable(os.path.join(path, name)):
                    return name
                warnings.warn(
                    f"snapshot {name} is not readable: an older one is loaded, if there is one",
                    SdbrWarning,
                    stacklevel=2,
                )
            return None

        return readable

    wrap(module, "_find_latest_snapshot", make)


AUTOLOAD = FunctionFix(
    name="snapshot-autoload",
    module="chainer.training.extensions._snapshot",
    reason="autoload fails where the newest file is not complete",
    stacks="any",
    needed=lambda stack: True,
    apply=_fix_autoload,
)

FIXES = (WRITERS, TEXT, AUTOLOAD)
