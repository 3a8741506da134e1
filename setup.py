"""Builds the extension modules, and the description; everything else is declared in pyproject.toml.

Every ``_*.pyx`` under ``src/sdbr`` becomes an extension module. The kernels in
``src/sdbr/kernels`` are linked into ``sdbr.backends.cpu._kernels``: ``frame/unit.c`` is compiled
for each unit (a family of ops) that ``frame/units.h`` names and each SIMD level that the compiler
has (asked here; ``SDBR_HAVE_AVX2`` and ``SDBR_HAVE_AVX512`` tell the module). The compiler notes
what each object includes, so a change compiles what it concerns.

What was compiled once is kept, by the hash of what it was made from, in ``SDBR_BUILD_CACHE``, and
taken by every other build. ``SDBR_EXTENSIONS=0`` leaves the extension modules out: `make` installs
the package that way and then builds them in place. ``SDBR_SANITIZE=address,undefined`` builds with
the compiler's sanitizers, see .ci/sanitize.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import os
import re
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

if sys.platform == "win32":
    raise SystemExit("sdbr does not support Windows; inside WSL it builds and runs as on Linux.")

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.modified import newer_group

# pip runs this file without its folder on the path.
sys.path.insert(0, str(Path(__file__).parent.absolute()))
from build_cache import Kept

SOURCES = Path("src/sdbr")
KERNELS = SOURCES / "kernels"

# Never -ffast-math: NaN, infinities and signed zeros behave as in NumPy. These two change no
# result; they only free the compiler from errno and floating-point traps that nobody reads.
# ISO mode turns contraction into fused multiply-add off, so it is asked for. A kernel that a unit
# forgot to include would only be missed when the module is loaded.
C_FLAGS = ["-std=c99", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast"]
C_FLAGS.append("-Werror=implicit-function-declaration")
CFLAGS = shlex.split(os.environ.get("CFLAGS", ""))
# Python's own flags often ask for debug information: slow to write and large in a wheel.
if not any(flag.startswith("-g") for flag in CFLAGS):
    C_FLAGS.append("-g0")
KERNEL_FLAGS = [*C_FLAGS, "-O3"]
# What Cython writes calls others, and is no faster with -O3, which takes longer to compile.
MODULE_FLAGS = [*C_FLAGS, *([] if any(flag.startswith("-O") for flag in CFLAGS) else ["-O2"])]

# How flags begin that differ from one Python to the other; kernels are compiled without them.
PYTHONS_FLAGS = ("-W", "-O", "-g", "-D", "-I", "-fwrapv", "-fno-strict-overflow")

# Every operation of these units rounds, as NumPy's do: what a step leaves is what the next begins
# with, and differences of close numbers (n - mean * mean) show each rounding.
ROUNDED_UNITS = frozenset({"update"})

# A finding ends the process. The frames must be there for the report to name them, and gcc's null
# checks stay on Cython's own code, which is C like any other.
SANITIZERS = os.environ.get("SDBR_SANITIZE", "")
if SANITIZERS:
    KERNEL_FLAGS = [flag for flag in C_FLAGS if flag != "-g0"]
    KERNEL_FLAGS += ["-O1", "-g", "-fno-omit-frame-pointer", "-fno-sanitize-recover=all"]
    KERNEL_FLAGS.append(f"-fsanitize={SANITIZERS}")
    MODULE_FLAGS = KERNEL_FLAGS

# level -> (the target string its kernel files use, an instruction that proves it)
SIMD_LEVELS = {
    "avx2": ("avx2,fma", "__m256i v = _mm256_set1_epi32(n); v = _mm256_add_epi32(v, v);"),
    "avx512": (
        "avx512f,avx512bw,avx512dq,avx512vl,fma",
        "__m512i v = _mm512_set1_epi32(n); v = _mm512_add_epi32(v, v);",
    ),
}

PROBE = """
#include <immintrin.h>
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("{target}"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("{target}")
#endif
static int body(int n)
{{
    int first;
    {body}
    memcpy(&first, &v, sizeof first);
    return first;
}}
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
int main(int argc, char **argv)
{{
    (void)argv;
    __builtin_cpu_init();
    return __builtin_cpu_supports("{feature}") ? body(argc) : 0;
}}
"""


class BuildExt(build_ext):
    """Translates with Cython under build/, asks the compiler for SIMD, compiles in parallel."""

    def build_extensions(self) -> None:
        # Imported here, because metadata, an sdist and a build without extensions need neither.
        import numpy

        self.parallel = self.parallel or os.cpu_count()
        kept = Kept()
        if "-g0" not in KERNEL_FLAGS:  # objects hold paths for a debugger
            kept.folder = None
        name = "call" if hasattr(self.compiler, "call") else "spawn"  # its name since setuptools 84
        setattr(self.compiler, name, functools.partial(kept.run, getattr(self.compiler, name)))
        [with_kernels] = [x for x in self.extensions if x.name == "sdbr.backends.cpu._kernels"]
        # Cython takes one core.
        with ThreadPoolExecutor(1) as beside:
            added = beside.submit(self.add_kernels, with_kernels)
            translated = self.translated(kept)
        added.result()
        for ext, c_ext in zip(self.extensions, translated, strict=True):
            ext.sources = c_ext.sources
            ext.include_dirs.append(numpy.get_include())
            ext.define_macros.append(("NPY_NO_DEPRECATED_API", "NPY_1_22_API_VERSION"))
        super().build_extensions()
        kept.clear_old()

    def translated(self, kept: Kept) -> list[Extension]:
        """The extensions with C sources by Cython; what was kept looks newly translated to it."""
        import Cython
        from Cython.Build import cythonize
        from Cython.Build.Dependencies import create_dependency_tree
        from Cython.Compiler.Main import CompilationOptions, Context

        folder = "build/sanitize/cython" if SANITIZERS else "build/cython"
        # Those of NumPy among them: most modules are the same with every NumPy.
        options = CompilationOptions(include_path=[str(SOURCES.parent)])
        tree = create_dependency_tree(Context.from_options(options), quiet=True)
        targets = {}
        for ext in self.extensions:
            key = hashlib.sha256(f"{Cython.__version__} {Path(__file__).read_text()}".encode())
            for path in sorted(map(Path, tree.all_dependencies(ext.sources[0]))):
                key.update(f"{path if path.is_relative_to(SOURCES) else path.name} ".encode())
                key.update(path.read_bytes())
            target = Path(folder, ext.sources[0]).with_suffix(".c")
            content = None if target.exists() else kept.get(key.hexdigest())
            if content is not None:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
            elif not target.exists():
                targets[key.hexdigest()] = target
        translated = cythonize(
            self.extensions,
            build_dir=folder,
            include_path=[str(SOURCES.parent)],
            compiler_directives={"language_level": 3},
            quiet=True,
        )
        for key, target in targets.items():
            kept.put(key, target.read_bytes())
        return translated

    def add_kernels(self, ext: Extension) -> None:
        """Compile the kernels at once; a change of the Cython sources alone reuses the objects."""
        import Cython

        levels = [level for level in SIMD_LEVELS if self.compiles(level)]
        flags = [f for f in self.compiler.compiler_so[1:] if f[:2] not in ("-I", "-D")]
        have = [(f"SDBR_HAVE_{level.upper()}", "1") for level in levels]
        ext.define_macros += have
        ext.define_macros += [
            ("SDBR_BUILD_FLAGS", c_string(" ".join(flags + KERNEL_FLAGS))),
            ("SDBR_BUILD_SIMD", c_string(" ".join(["baseline", *levels]))),
            ("SDBR_CYTHON_VERSION", c_string(Cython.__version__)),
        ]
        unit_c = KERNELS / "frame" / "unit.c"
        jobs = [(unit_c, unit, level) for unit in units() for level in ["baseline", *levels]]
        jobs += [(path, "", "") for path in sorted(KERNELS.rglob("*.c")) if path != unit_c]
        with ThreadPoolExecutor(self.parallel) as pool:
            ext.extra_objects = list(pool.map(lambda job: self.kernel(ext, have, *job), jobs))
        ext.depends += ext.extra_objects

    def kernel(self, ext: Extension, have: list, source: Path, unit: str, level: str) -> str:
        """The object of a kernel source; compiled unless it is newer than all it was made from."""
        folder = str(Path(self.build_temp, f"{unit}-{level}" if unit else ""))
        [target] = self.compiler.object_filenames([str(source)], output_dir=folder)
        notes = f"{target}.d"
        made_from = dependencies(notes) if Path(target).exists() else None
        if not self.force and made_from and not newer_group(["setup.py", *made_from], target):
            return target
        macros = list(have)
        if unit:
            macros += [("SDBR_UNIT", unit), ("SDBR_LEVEL", level)]
            macros += [(f"SDBR_LEVEL_{level.upper()}", "1")]
        # Without Python's own flags and headers: one object for every Python. The user's come back.
        compiler = copy.copy(self.compiler)
        flags = [x for x in compiler.compiler_so if not x.startswith(PYTHONS_FLAGS)]
        flags += ["-fwrapv", "-DNDEBUG"]
        flags += shlex.split(os.environ.get("CPPFLAGS", ""))
        # How much is optimized is ours to say, and no reason to compile a kernel once more.
        flags += [flag for flag in CFLAGS if not flag.startswith("-O")]
        compiler.set_executable("compiler_so", flags)
        compiler.set_include_dirs([])
        compiler.compile(
            [str(source)],
            output_dir=folder,
            macros=macros,
            include_dirs=[str(KERNELS)],
            extra_postargs=[
                *KERNEL_FLAGS,
                *(["-ffp-contract=off"] if unit in ROUNDED_UNITS else []),
                *("-MMD", "-MF", notes),
            ],
        )
        return target

    def compiles(self, level: str) -> bool:
        """Whether the compiler builds and links a program for this SIMD level."""
        target, body = SIMD_LEVELS[level]
        feature = target.split(",")[0]
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, f"probe_{level}.c")
            text = PROBE.format(target=target, body=body, feature=feature)
            source.write_text("#include <string.h>\n" + text)
            command = [*self.compiler.compiler_so, "-std=c99", str(source)]
            command = [part for part in command if part != "-c"]
            return quiet_run([*command, "-o", str(Path(folder, "probe"))])


def units() -> list[str]:
    """Names of the units of kernels."""
    return re.findall(r"X\((\w+)\)", (KERNELS / "frame" / "units.h").read_text())


def dependencies(notes: str) -> list[str] | None:
    """The files named by a compiler's dependency file, or None where one of them is gone."""
    try:
        files = Path(notes).read_text().replace("\\\n", " ").split(":", 1)[1].split()
    except (OSError, IndexError):
        return None
    return files if all(Path(file).exists() for file in files) else None


def quiet_run(command: list[str]) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def c_string(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def extensions() -> list[Extension]:
    """One extension module per ``_*.pyx``; none when SDBR_EXTENSIONS=0."""
    if os.environ.get("SDBR_EXTENSIONS") == "0":
        return []
    # What the loop includes: numbers, names of units and of steps; not the arithmetic.
    headers = [
        str(path)
        for pattern in ("frame/*.h", "runtime/*.h", "*/names.h", "fused/steps.h")
        for path in sorted(KERNELS.glob(pattern))
    ]
    declarations = [str(path) for path in sorted(SOURCES.rglob("*.pxd"))]
    return [
        Extension(
            ".".join(path.relative_to(SOURCES.parent).with_suffix("").parts),
            [str(path)],
            include_dirs=[str(KERNELS)],
            depends=["setup.py", *headers, *declarations],
            extra_compile_args=list(MODULE_FLAGS),
            extra_link_args=["-pthread", *([f"-fsanitize={SANITIZERS}"] if SANITIZERS else [])],
        )
        for path in sorted(SOURCES.rglob("_*.pyx"))
    ]


def description() -> str:
    """README.md without links into the repository, which lead nowhere from package metadata.

    Files keep their names. Once ``[project.urls]`` has a ``Source``, where they can be read, they
    are links to there.
    """
    source = re.search(r'^Source = "(.+?)/?"', Path("pyproject.toml").read_text("utf-8"), re.M)

    def link(found: re.Match) -> str:
        text, target = found.groups()
        if source:
            return f"[{text}]({source[1]}/{target})"
        return text if text == target else f"{text} ({target})"

    text = Path("README.md").read_text("utf-8")
    return re.sub(r"\[([^\]]+)\]\((?!https?:)([^)]+)\)", link, text)


setup(
    ext_modules=extensions(),
    cmdclass={"build_ext": BuildExt},
    long_description=description(),
    long_description_content_type="text/markdown",
)
