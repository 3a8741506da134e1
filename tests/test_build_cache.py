"""What ``build_cache.py`` keeps of builds, by the hash of what it was made from."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

import build_cache

CC = (sysconfig.get_config_var("CC") or "cc").split()
pytestmark = pytest.mark.skipif(shutil.which(CC[0]) is None, reason="the compiler is not here")


@pytest.fixture
def kept(monkeypatch, tmp_path):
    """`Kept`, in a folder of its own."""
    monkeypatch.setenv("SDBR_BUILD_CACHE", str(tmp_path / "kept"))
    return build_cache.Kept


class Project:
    """A source and its header in a folder, compiled through what is kept."""

    def __init__(self, folder: Path, kept, number: int = 3):
        (folder / "include").mkdir(parents=True)
        self.header = folder / "include" / "number.h"
        self.header.write_text(f"#define NUMBER {number}\n")
        (folder / "source.c").write_text('#include "number.h"\nint number(void) {return NUMBER;}\n')
        self.folder, self.kept, self.runs = folder, kept(), 0

    def _run(self, command: list[str]) -> None:
        self.runs += 1
        subprocess.run(command, check=True)

    def compiled(self, *flags: str) -> bytes:
        """The object."""
        target, include = self.folder / "source.o", f"-I{self.folder / 'include'}"
        source = str(self.folder / "source.c")
        notes = ["-MMD", "-MF", str(self.folder / "notes")]
        command = [*CC, *flags, include, "-c", source, "-o", str(target), *notes]
        self.kept.run(self._run, command)
        assert str(self.header) in (self.folder / "notes").read_text()
        return target.read_bytes()


def test_compiled_once_for_all_folders(kept, tmp_path):
    one, two = Project(tmp_path / "one", kept), Project(tmp_path / "two", kept)
    assert one.compiled() == two.compiled()
    assert (one.runs, two.runs) == (1, 0)


def test_compiled_anew_for_other_sources_and_flags(kept, tmp_path):
    one = Project(tmp_path / "one", kept)
    first = one.compiled()
    one.header.write_text("#define NUMBER 4\n")
    assert one.compiled() != first
    one.compiled("-O2")
    assert one.runs == 3
    one.header.write_text("#define NUMBER 3 /* as it was */\n")
    assert one.compiled() == first
    assert one.runs == 3


def test_what_is_damaged_is_compiled_anew(kept, tmp_path):
    one = Project(tmp_path / "one", kept)
    first = one.compiled()
    (file,) = (tmp_path / "kept").iterdir()
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    assert one.compiled() == first
    assert one.compiled() == first
    assert one.runs == 2


def test_what_nobody_asks_for_goes(kept, tmp_path):
    one = Project(tmp_path / "one", kept)
    one.compiled()
    one.compiled("-O2")
    old, new = sorted((tmp_path / "kept").iterdir())
    others = tmp_path / "kept" / "letters.txt"
    others.write_text("not ours")
    for path in (old, others):
        os.utime(path, (0, 0))
    one.kept.clear_old()
    assert sorted((tmp_path / "kept").iterdir()) == [new, others]


@pytest.mark.parametrize("where", ["", "file"])
def test_nothing_is_kept_where_that_is_not_wanted_or_not_possible(
    kept, tmp_path, monkeypatch, where
):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SDBR_BUILD_CACHE", where and str(tmp_path / where))
    one = Project(tmp_path / "one", kept)
    assert one.compiled() == one.compiled()
    one.kept.clear_old()
    assert one.runs == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "one"]


def test_errors_are_the_compilers(kept, tmp_path, capfd):
    one = Project(tmp_path / "one", kept)
    one.header.write_text("#error no number\n")
    with pytest.raises(subprocess.CalledProcessError):
        one.compiled()
    assert "no number" in capfd.readouterr().err
    assert not (tmp_path / "kept").exists()
