"""cuBLASLt, products of matrices on GPUs: found among the libraries of this Python, by ctypes.

Matrices are row-major everywhere here. The library has columns: what it is asked for is the
transposed product, of the same factors in the other order, whose columns are our rows.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import weakref
from collections.abc import Iterator

from sdbr.base.errors import BackendError
from sdbr.devices import libraries
from sdbr.devices.driver import Borrowed, Device

_WHEELS = ("nvidia/cu*/lib", "nvidia/cublas/lib")
_SONAMES = ("libcublasLt.so.13", "libcublasLt.so.12")  # found by LD_LIBRARY_PATH

#: Of ``cublasLtMatmul``, as its headers number them.
_SUCCESS = 0
_REFUSALS = (7, 8, 15)  # INVALID_VALUE, ARCH_MISMATCH, NOT_SUPPORTED
_REAL = {"f4": 0, "f8": 1}  # cudaDataType
_COMPUTE = {"f4": 68, "f8": 70}  # cublasComputeType_t: 32F, 64F
_COMPUTE_TF32 = 77  # 32F_FAST_TF32
_TRANSA, _TRANSB, _EPILOGUE, _BIAS, _AUX, _AUX_LD = 3, 4, 7, 8, 11, 12  # of the operation
_BATCH_COUNT, _BATCH_STEP = 5, 6  # of a layout
_MOST_WORKSPACE, _ALIGNMENTS = 1, (5, 6, 7, 8)  # of a preference; of A, B, C, D

#: What follows the product, by name.
EPILOGUES = {
    "": 1,
    "relu": 2,
    "bias": 4,
    "relu_bias": 2 | 4,
    "relu_aux": 2 | 128,
    "relu_aux_bias": 2 | 4 | 128,
    "drelu": 8 | 128,
    "bgrad": 512,  # BGRADB: sums of the second factor there, which is the first one here
}
#: The bits of a row of a mask begin at multiples of so many.
MASK_STEP = 128
#: Bytes that the library may work in.
MOST_WORKSPACE = 32 << 20
MOST_SIZE = (1 << 31) - 1  # rows and columns

_PLACE = ctypes.POINTER(ctypes.c_void_p)
_INT, _POINTER, _SIZE = ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t
_SET = (_POINTER, _INT, _POINTER, _SIZE)


class Heuristic(ctypes.Structure):
    """``cublasLtMatmulHeuristicResult_t``."""

    _fields_ = (
        ("algorithm", ctypes.c_uint64 * 8),
        ("workspace", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


_SIGNATURES = {
    "cublasLtCreate": (_PLACE,),
    "cublasLtDestroy": (_POINTER,),
    "cublasLtMatmulDescCreate": (_PLACE, _INT, _INT),
    "cublasLtMatmulDescDestroy": (_POINTER,),
    "cublasLtMatmulDescSetAttribute": _SET,
    "cublasLtMatrixLayoutCreate": (
        _PLACE, _INT, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int64,
    ),
    "cublasLtMatrixLayoutDestroy": (_POINTER,),
    "cublasLtMatrixLayoutSetAttribute": _SET,
    "cublasLtMatmulPreferenceCreate": (_PLACE,),
    "cublasLtMatmulPreferenceDestroy": (_POINTER,),
    "cublasLtMatmulPreferenceSetAttribute": _SET,
    "cublasLtMatmulAlgoGetHeuristic": (
        (_POINTER,) * 7 + (_INT, ctypes.POINTER(Heuristic), ctypes.POINTER(_INT))
    ),
    "cublasLtMatmulAlgoCheck": (_POINTER,) * 7 + (ctypes.POINTER(Heuristic),),
    "cublasLtMatmul": (_POINTER,) * 14 + (_SIZE, _POINTER),
}  # fmt: skip


class Refused(BackendError):
    """The library does not do this."""


class CublasLt:
    """One cuBLASLt library.

    Parameters
    ----------
    path : str
        Its file, or a name that the loader finds.

    Attributes
    ----------
    version : tuple of int
        (13, 1, 0).
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._library = ctypes.CDLL(path)
        for name, signature in _SIGNATURES.items():
            getattr(self._library, name).argtypes = signature
        self._library.cublasLtGetVersion.restype = ctypes.c_size_t
        self._library.cublasLtGetStatusName.restype = ctypes.c_char_p
        number = self._library.cublasLtGetVersion()
        self.version = (number // 10000, number % 10000 // 100, number % 100)

    @property
    def name(self) -> str:
        """The version as text."""
        return ".".join(map(str, self.version))

    def call(self, name: str, *args) -> None:
        """Call a function.

        Raises
        ------
        Refused
            If the library does not do what it is asked for.
        BackendError
            For other errors. Both have the name of the status.
        """
        status = getattr(self._library, name)(*args)
        if status != _SUCCESS:
            text = self._library.cublasLtGetStatusName(status).decode()
            raise (Refused if status in _REFUSALS else BackendError)(f"{name}: {text}")


@dataclasses.dataclass(frozen=True)
class Product:
    """What the library is asked for: ``c = op(a) @ op(b)``, and what follows.

    Attributes
    ----------
    dtype : str
        ``'f4'`` or ``'f8'``.
    n, m, depth : int
        c is n x m.
    trans_a, trans_b : bool
    count : int
        Products of matrices that lie one behind the other.
    accumulates : bool
        Whether it is added to c.
    epilogue : str
        One of `EPILOGUES`.
    tf32 : bool
        Whether factors may be rounded to ten bits behind the point.
    alignment : tuple of int
        Bytes, of the addresses of a, b, c, and of what the epilogue has.
    """

    dtype: str
    n: int
    m: int
    depth: int
    trans_a: bool = False
    trans_b: bool = False
    count: int = 1
    accumulates: bool = False
    epilogue: str = ""
    tf32: bool = False
    alignment: tuple[int, int, int, int] = (256, 256, 256, 256)

    def __str__(self) -> str:
        a, b = "T" if self.trans_a else "N", "T" if self.trans_b else "N"
        words = [self.dtype, "tf32" if self.tf32 else "", f"{self.count}x" * (self.count > 1)]
        words += [f"{self.n}x{self.m}x{self.depth}", a + b, "+=" if self.accumulates else ""]
        words += [self.epilogue, ",".join(map(str, self.alignment))]
        return " ".join(filter(None, words))

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return int(self.dtype[1:])

    @property
    def mask_bytes(self) -> int:
        """What the mask of an activation takes."""
        return self.n * self.mask_row // 8

    @property
    def mask_row(self) -> int:
        """Bits from a row of the mask to the next."""
        return -(-self.m // MASK_STEP) * MASK_STEP

    @property
    def vector(self) -> int:
        """Elements of the bias that it adds, or of the sums that it makes."""
        return self.n if self.epilogue == "bgrad" else self.m * self.epilogue.endswith("bias")

    @property
    def has_mask(self) -> bool:
        """Whether it writes or reads a mask."""
        return "aux" in self.epilogue or self.epilogue == "drelu"


@dataclasses.dataclass(frozen=True)
class Algorithm:
    """How the library does it: what its own words are is known to its version alone."""

    words: tuple[int, ...]
    workspace: int


class Handle:
    """A cuBLASLt library on a device, whose context has to be current for all that is done.

    Attributes
    ----------
    library : CublasLt
    device : Device
    """

    def __init__(self, library: CublasLt, device: Device) -> None:
        self.library, self.device = library, device
        self.handle = ctypes.c_void_p()
        with device.current():
            library.call("cublasLtCreate", ctypes.byref(self.handle))

    def product(self, product: Product) -> Matmul:
        """Get ready for a product.

        Raises
        ------
        Refused
        """
        return Matmul(self, product)


class _Described:
    """Something of the library's that is given back when it is let go."""

    def __init__(self, library: CublasLt, what: str, *args) -> None:
        self._library, self._what = library, what
        self.handle = ctypes.c_void_p()
        library.call(f"cublasLt{what}Create", ctypes.byref(self.handle), *args)
        destroy = getattr(library._library, f"cublasLt{what}Destroy")
        weakref.finalize(self, destroy, self.handle).atexit = False

    def set(self, attribute: int, value: ctypes._SimpleCData) -> None:
        """One of its attributes."""
        self._library.call(
            f"cublasLt{self._what}SetAttribute",
            self.handle, attribute, ctypes.byref(value), ctypes.sizeof(value),
        )  # fmt: skip


class Matmul:
    """A product that the library is ready for.

    Parameters
    ----------
    handle : Handle
    product : Product

    Raises
    ------
    Refused
        If the library does not know of such.
    """

    def __init__(self, handle: Handle, product: Product) -> None:
        self.owner, self.product = handle, product
        self.library = library = handle.library
        compute = _COMPUTE_TF32 if product.tf32 else _COMPUTE[product.dtype]
        self._operation = _Described(library, "MatmulDesc", compute, _REAL[product.dtype])
        for attribute, is_transposed in ((_TRANSA, product.trans_b), (_TRANSB, product.trans_a)):
            self._operation.set(attribute, ctypes.c_int32(is_transposed))
        self._operation.set(_EPILOGUE, ctypes.c_uint32(EPILOGUES[product.epilogue]))
        # Addresses that are nobody's: only how they are aligned is looked at before it runs.
        if product.vector:
            self._operation.set(_BIAS, ctypes.c_void_p(product.alignment[3]))
        if product.has_mask:
            self._operation.set(_AUX, ctypes.c_void_p(256))
            self._operation.set(_AUX_LD, ctypes.c_int64(product.mask_row))
        n, m, depth = product.n, product.m, product.depth
        self._a = self._layout(*((depth, n) if product.trans_a else (n, depth)))
        self._b = self._layout(*((m, depth) if product.trans_b else (depth, m)))
        self._c = self._layout(n, m)
        number = ctypes.c_float if product.dtype == "f4" else ctypes.c_double
        self._one, self._beta = number(1), number(product.accumulates)

    def _layout(self, rows: int, columns: int) -> _Described:
        """Of a row-major matrix: of columns, as the library sees it."""
        real = _REAL[self.product.dtype]
        made = _Described(self.library, "MatrixLayout", real, columns, rows, columns)
        if self.product.count > 1:
            made.set(_BATCH_COUNT, ctypes.c_int32(self.product.count))
            made.set(_BATCH_STEP, ctypes.c_int64(rows * columns))
        return made

    def algorithms(self, most: int) -> list[Algorithm]:
        """What the library thinks is fastest; none: it does not do this.

        Raises
        ------
        BackendError
            For other errors than that it does not.
        """
        preference = _Described(self.library, "MatmulPreference")
        preference.set(_MOST_WORKSPACE, ctypes.c_uint64(MOST_WORKSPACE))
        a, b, c, _ = self.product.alignment
        for attribute, alignment in zip(_ALIGNMENTS, (b, a, c, c), strict=True):
            preference.set(attribute, ctypes.c_uint32(alignment))
        found, count = (Heuristic * most)(), ctypes.c_int()
        try:
            self.library.call(
                "cublasLtMatmulAlgoGetHeuristic", *self._described(), preference.handle,
                most, found, ctypes.byref(count),
            )  # fmt: skip
        except Refused:
            return []
        return [
            Algorithm(tuple(one.algorithm), one.workspace)
            for one in found[: count.value]
            if one.state == _SUCCESS and one.workspace <= MOST_WORKSPACE
        ]

    def takes(self, algorithm: Algorithm) -> bool:
        """Whether an algorithm that was found before does this."""
        words, result = (ctypes.c_uint64 * 8)(*algorithm.words), Heuristic()
        try:
            self.library.call(
                "cublasLtMatmulAlgoCheck", *self._described(), words, ctypes.byref(result)
            )
        except Refused:
            return False
        return result.state == _SUCCESS and result.workspace <= algorithm.workspace

    def _described(self) -> Iterator[ctypes.c_void_p]:
        yield self.owner.handle
        for one in (self._operation, self._b, self._a, self._c, self._c):
            yield one.handle

    def run(
        self,
        stream: Borrowed,
        algorithm: Algorithm,
        a: int,
        b: int,
        c: int,
        workspace: int,
        vector: int = 0,
        mask: int = 0,
    ) -> None:
        """Launch it on a stream, or record it where that records.

        Parameters
        ----------
        stream : Borrowed
        algorithm : Algorithm
        a, b, c, workspace, vector, mask : int
            Addresses: of row-major matrices, of the bias or the sums, of the mask.

        Raises
        ------
        BackendError
        """
        if vector:
            self._operation.set(_BIAS, ctypes.c_void_p(vector))
        if mask:
            self._operation.set(_AUX, ctypes.c_void_p(mask))
        words = (ctypes.c_uint64 * 8)(*algorithm.words)
        handle, operation, b_layout, a_layout, c_layout, _ = self._described()
        one, beta = ctypes.byref(self._one), ctypes.byref(self._beta)
        self.library.call(
            "cublasLtMatmul", handle, operation, one, b, b_layout, a, a_layout,
            beta, c, c_layout, c, c_layout, words, workspace or None, algorithm.workspace,
            stream.handle,
        )  # fmt: skip


def candidates() -> Iterator[str]:
    """Files and names that may be cuBLASLt."""
    yield from libraries.candidates("cublasLt", _WHEELS)
    yield from _SONAMES


@functools.cache
def cublaslt(newest: int | None = None) -> CublasLt:
    """The cuBLASLt of this Python.

    Parameters
    ----------
    newest : int, optional
        The CUDA that the driver can run: 13.

    Raises
    ------
    BackendError
        If there is none, or none that can be loaded.
    """
    reasons = []
    for path in candidates():
        try:
            found = CublasLt(path)
        except (OSError, AttributeError) as error:
            if path not in _SONAMES:
                reasons.append(f"{path}: {error}")
            continue
        if newest is None or found.version[0] <= newest:
            return found
        reasons.append(f"{path}: the driver is too old for {found.name}")
    raise BackendError(
        "cuBLASLt was not found: pip install nvidia-cublas, or set CUDA_PATH to a CUDA toolkit"
        + "".join(f"; {reason}" for reason in reasons)
    )
