"""The speed of light: hand-written C with fixed shapes, on the BLAS that SciPy brings."""

from __future__ import annotations

import ctypes
import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.cases import deep_chain, replay
from benchmarks.cases.base import Case
from benchmarks.peers.base import LeftOut, Runner

SOURCES = Path(__file__).resolve().parents[1] / "native"
# No -ffast-math; errno and traps are not observable here, and keep loops from being vectorised.
FLAGS = (
    "-O3 -march=native -fno-math-errno -fno-trapping-math -fopenmp-simd -std=gnu99 -shared -fPIC"
)


def make(case: Case, style: str, device: str = "cpu") -> Runner:
    """Return the runner of a case; there is none for a GPU."""
    if case.kind == "trainer":
        raise LeftOut("Chainer's Trainer is what this case is about")
    if case.network != "perceptron":
        raise LeftOut("nobody has written this network by hand")
    return {"train": Train, "chain": DeepChain, "infer": Infer, "dqn": Dqn}[case.kind](case)


def compile_library(source: str, macros: dict[str, int]) -> ctypes.CDLL:
    """Compile one source for fixed shapes and load it.

    Raises
    ------
    LeftOut
        If there is no compiler, or it fails.
    """
    compiler = os.environ.get("CC", "cc")
    if shutil.which(compiler.split()[0]) is None:
        raise LeftOut(f"no C compiler ({compiler})")
    with tempfile.TemporaryDirectory() as directory:
        library = Path(directory) / "light.so"
        command = [
            *shlex.split(compiler),
            *FLAGS.split(),
            *(f"-D{name}={value}" for name, value in macros.items()),
            str(SOURCES / source),
            "-o",
            str(library),
            "-lm",
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise LeftOut(f"{compiler} failed: {done.stderr.strip().splitlines()[-1:]}")
        return ctypes.CDLL(str(library))


def sgemm_pointer() -> int:
    """Return the address of SciPy's sgemm.

    Raises
    ------
    LeftOut
        If SciPy's BLAS uses 64-bit integers, for which these sources are not compiled.
    """
    from scipy.linalg import cython_blas

    capsule = cython_blas.__pyx_capi__["sgemm"]
    name_of = ctypes.pythonapi.PyCapsule_GetName
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    signature = name_of(capsule)
    if b"int *" not in signature:
        raise LeftOut("SciPy's BLAS has 64-bit integers")
    return pointer_of(capsule, signature)


def flat(layers) -> np.ndarray:
    """Weights and biases one behind the other."""
    return np.concatenate([a.ravel() for pair in layers for a in pair]).astype(np.float32)


def address(array: np.ndarray) -> ctypes.c_void_p:
    """Return where an array begins; the caller keeps the array."""
    return ctypes.c_void_p(array.ctypes.data)


class _Perceptron(Runner):
    source: str

    def __init__(self, case: Case):
        super().__init__(case)
        shapes = {"N": case.batch, **{f"D{i}": n for i, n in enumerate(case.sizes)}}
        self.library = compile_library(self.source, shapes)
        self.library.set_sgemm(ctypes.c_void_p(sgemm_pointer()))
        self.weights = flat(case.weights())
        self.x = case.inputs()

    def reset(self) -> None:
        self.library.reset(address(self.weights))


class Train(_Perceptron):
    """n training steps in one call."""

    source = "train.c"

    def __init__(self, case: Case):
        super().__init__(case)
        self.t = case.labels()

    def run(self, part: str, n: int, losses: np.ndarray | None = None) -> None:
        out = None if losses is None else address(losses)
        self.library.run(ctypes.c_long(n), address(self.x), address(self.t), self.case.ring, out)

    def check(self, part: str) -> list[float]:
        self.reset()
        losses = np.zeros(self.case.check_steps, np.float32)
        self.run(part, len(losses), losses)
        return losses.tolist()


class Infer(_Perceptron):
    """n forward passes in one call."""

    source = "infer.c"

    def __init__(self, case: Case):
        super().__init__(case)
        self.out = np.zeros((case.ring, case.sizes[-1]), np.float32)

    def run(self, part: str, n: int) -> None:
        ring = self.case.ring
        self.library.run(ctypes.c_long(n), address(self.x), ring, address(self.out))

    def check(self, part: str) -> list[float]:
        self.reset()
        self.run(part, self.case.ring)
        return self.out[: self.case.check_steps].ravel().tolist()


class DeepChain(Runner):
    """n training steps of the deep chain in one call."""

    def __init__(self, case: Case):
        super().__init__(case)
        layers = len(case.sizes) - 1
        self.library = compile_library("chain.c", {"D": case.sizes[0], "LAYERS": layers})
        self.weights = flat(case.weights())
        self.x = case.inputs()

    def reset(self) -> None:
        self.library.reset(address(self.weights))

    def run(self, part: str, n: int, losses: np.ndarray | None = None) -> None:
        out = None if losses is None else address(losses)
        rate = ctypes.c_float(deep_chain.LEARNING_RATE)
        self.library.run(ctypes.c_long(n), address(self.x), self.case.ring, rate, out)

    def check(self, part: str) -> list[float]:
        return Train.check(self, part)


class Dqn(_Perceptron):
    """n updates, or n greedy actions, in one call."""

    source = "dqn.c"

    def __init__(self, case: Case):
        super().__init__(case)
        self.buffer = replay.buffer(case)
        self.actions = np.zeros(case.ring, np.int32)
        self.values = np.zeros((case.ring, case.sizes[-1]), np.float32)
        target = flat(replay.target_weights(case))
        self.library.set_target(address(target))

    def run(self, part: str, n: int, rows=None, losses=None) -> None:
        if part == "act":
            obs = address(self.buffer.obs)
            out = address(self.actions), address(self.values)
            self.library.run_act(ctypes.c_long(n), obs, self.case.ring, *out)
            return
        b = self.buffer
        arrays = map(address, (b.obs, b.action, b.reward, b.done, b.obs_next))
        out = (None, None) if losses is None else (address(rows), address(losses))
        n_all = ctypes.c_long(self.case.transitions)
        self.library.run_update(ctypes.c_long(n), *arrays, out[0], n_all, out[1])

    def check(self, part: str) -> list[float]:
        self.reset()
        if part == "act":
            self.run(part, self.case.ring)
            return [*self.actions.tolist(), *self.values.ravel().tolist()]
        sampler = replay.Sampler(self.case)
        steps = self.case.check_steps
        rows = np.concatenate([sampler.rows() for _ in range(steps)]).astype(np.int64)
        losses = np.zeros(steps, np.float32)
        self.run(part, steps, rows, losses)
        return losses.tolist()
