"""cuBLASLt by ctypes: on a double without a device, and what the library itself can be asked."""

import contextlib
import ctypes
import dataclasses
import gc
import json
import re
from pathlib import Path

from sdbr.backends.cuda.races import CANDIDATES, Races
from sdbr.base.errors import BackendError
from sdbr.devices import cublaslt
from sdbr.devices.cublaslt import Product, Refused

import numpy as np
import pytest

from tests.harness import device
from tests.harness.comparison import assert_near
from tests.tolerances import RESULTS

SMALL = Product("f4", 3, 5, 7)


@pytest.fixture
def handle():
    found = device.handle()
    with found.device.current():
        yield found


@pytest.fixture
def stream(handle):
    return handle.device.stream()


def found(races, product, timed=True):
    """The algorithm that a product gets."""
    on = races.handle.device
    with on.current():
        matmul = races.handle.product(product)
        return races.algorithm(matmul, on.allocate, on.stream(), timed)


def address(array):
    return array.ctypes.data


def test_a_product(handle, stream):
    """Rows, not columns: ``c = op(a) @ op(b)``."""
    rng = np.random.RandomState(0)
    for trans_a in (False, True):
        for trans_b in (False, True):
            a, b = rng.randn(3, 7).astype("f"), rng.randn(7, 5).astype("f")
            c = np.full((3, 5), np.nan, "f")
            product = dataclasses.replace(
                SMALL, trans_a=trans_a, trans_b=trans_b, alignment=(4, 4, 4, 4)
            )
            given_a = np.ascontiguousarray(a.T) if trans_a else a
            given_b = np.ascontiguousarray(b.T) if trans_b else b
            matmul = handle.product(product)
            algorithm = matmul.algorithms(1)[0]
            matmul.run(stream, algorithm, *map(address, (given_a, given_b, c)), 0)
            assert_near(c, a @ b, RESULTS, str(product))


def test_what_the_library_does_not_do_is_refused(handle, stream):
    with device.by_library(refused=4):
        assert handle.product(dataclasses.replace(SMALL, epilogue="bias")).algorithms(3) == []
        assert handle.product(SMALL).algorithms(CANDIDATES)
    assert handle.product(dataclasses.replace(SMALL, n=0)).algorithms(3) == []


def test_addresses_that_are_not_aligned_as_was_said(handle, stream):
    x = np.zeros(1000, "f")
    at = -(-address(x) // 256) * 256
    matmul = handle.product(SMALL)
    algorithm = matmul.algorithms(1)[0]
    matmul.run(stream, algorithm, at, at + 256, at + 512, 0)
    with pytest.raises(Refused, match="cublasLtMatmul: CUBLAS_STATUS_INVALID_VALUE"):
        matmul.run(stream, algorithm, at, at + 128, at + 512, 0)


def test_errors_have_the_name_of_their_status(handle, stream):
    with (
        device.by_library(fails=13) as races,
        pytest.raises(
            BackendError, match=r"f4 3x5x7 NN .*CUBLAS_STATUS_EXECUTION_FAILED"
        ) as caught,
    ):
        found(races, SMALL)
    assert not isinstance(caught.value, Refused)


def test_without_memory_to_try_it_in(handle, stream):
    """It is refused now, and may be done later."""

    def full(nbytes):
        raise MemoryError

    with device.by_library() as races:
        with pytest.raises(Refused, match=r"f4 3x5x7 NN .*: no memory to try it in"):
            races.algorithm(handle.product(SMALL), full, stream, True)
        assert races.algorithm(handle.product(SMALL), handle.device.allocate, stream, True)


def test_a_handle_needs_a_device():
    made = device.cublaslt()
    with pytest.raises(BackendError, match="cublasLtCreate: CUBLAS_STATUS_NOT_INITIALIZED"):
        made.call("cublasLtCreate", ctypes.byref(ctypes.c_void_p()))


def test_everything_described_is_given_back(handle):
    gc.collect()
    before = device.blas_setting("descriptors").value
    handle.product(SMALL).algorithms(3)
    gc.collect()
    assert device.blas_setting("descriptors").value == before


def test_the_fastest_is_taken():
    for cheapest in range(3):
        with device.by_library() as races:
            costs = device.blas_settings("costs")
            before = list(costs)
            costs[:3] = [9 - 5 * (k == cheapest) for k in range(3)]
            try:
                assert found(races, SMALL).words[1] == cheapest
            finally:
                costs[:] = before
            assert races.timed == 1


@pytest.mark.parametrize("timed", [False, True])
def test_a_relu_that_makes_zeros_of_nan_is_none(timed):
    """As define-by-run keeps them: the library does not say what its own does."""
    relu = dataclasses.replace(SMALL, epilogue="relu_bias")
    for swallows, left in ((0b011, 2), (0b111, None)):
        with device.by_library(swallows=swallows) as races:
            got = found(races, relu, timed)
            assert left is None if got is None else got.words[1] == left
            assert found(races, SMALL, timed) is not None


def test_nothing_is_timed_where_nobody_wants_it(tmp_path):
    with device.by_library(tmp_path) as races:
        assert found(races, SMALL, timed=False).words[1] == 0
    assert races.timed == 0
    assert not list(tmp_path.rglob("*"))


def test_what_was_timed_is_kept(tmp_path):
    """By device, driver and versions; also that the library does not do something."""
    relu = dataclasses.replace(SMALL, epilogue="relu")
    with device.by_library(tmp_path, refused=2) as races:
        first = found(races, SMALL)
        assert found(races, relu) is None
    asked = device.blas_setting("asked").value
    with device.by_library(tmp_path, refused=2) as races:
        assert found(races, SMALL) == first
        assert found(races, relu) is None
        assert found(races, SMALL) == first
    assert (races.timed, device.blas_setting("asked").value) == (0, asked)
    (file,) = tmp_path.rglob("*.json")
    about = json.loads(file.read_text())["about"]
    assert (about["device"], about["driver"]) == ("fake 0 sm_90", "13.0")
    assert about["library"] == "13.1.0"


@pytest.mark.parametrize("text", ["", "{}", '{"about": 1, "products": {}}', "[1]", "\xff"])
def test_files_that_cannot_be_read(tmp_path, text):
    with device.by_library(tmp_path) as races:
        found(races, SMALL)
        (file,) = tmp_path.rglob("*.json")
        whole = json.loads(file.read_text())
        file.write_text(text)
        assert found(Races(races.handle, tmp_path), SMALL)
        assert json.loads(file.read_text()) == whole


@pytest.mark.parametrize(
    "words", [[1] * 8, [1] * 7, [-1] * 8, None, "nothing", [0x1DEA, 0, 0, 0, 0, 0, 0, 0]]
)
def test_algorithms_that_are_none_any_more(tmp_path, words):
    """They are asked for anew, and timed."""
    with device.by_library(tmp_path) as races:
        first = found(races, SMALL)
        (file,) = tmp_path.rglob("*.json")
        data = json.loads(file.read_text())
        data["products"][str(SMALL)]["words"] = words
        file.write_text(json.dumps(data))
        again = Races(races.handle, tmp_path)
        assert found(again, SMALL) == first
        assert again.timed == 1


def test_without_the_library(monkeypatch):
    monkeypatch.setattr(cublaslt, "candidates", lambda: iter(["nothing.so", "libm.so.6"]))
    cublaslt.cublaslt.cache_clear()
    try:
        with pytest.raises(BackendError, match=r"not found: pip install nvidia-cublas.*nothing.so"):
            cublaslt.cublaslt()
    finally:
        cublaslt.cublaslt.cache_clear()


def test_a_library_that_is_too_new_for_the_driver(monkeypatch):
    path = device.cublaslt().path
    monkeypatch.setattr(cublaslt, "candidates", lambda: iter([path]))
    cublaslt.cublaslt.cache_clear()
    try:
        assert cublaslt.cublaslt(13).name == "13.1.0"
        with pytest.raises(BackendError, match=r"the driver is too old for 13.1.0"):
            cublaslt.cublaslt(12)
    finally:
        cublaslt.cublaslt.cache_clear()


def libraries():
    """The double, and the library itself where it is found: both describe without a device."""
    yield device.cublaslt()
    try:
        yield cublaslt.cublaslt()
    except BackendError:
        return


SETTINGS = [
    ("MatmulDesc", (68, 0), 3, ctypes.c_int32(1), ctypes.c_int64(1)),
    ("MatmulDesc", (77, 0), 4, ctypes.c_int32(1), ctypes.c_int8(1)),
    ("MatmulDesc", (70, 1), 7, ctypes.c_uint32(512), ctypes.c_uint64(512)),
    ("MatmulDesc", (68, 0), 8, ctypes.c_void_p(256), ctypes.c_uint32(256)),
    ("MatmulDesc", (68, 0), 11, ctypes.c_void_p(256), ctypes.c_uint32(256)),
    ("MatmulDesc", (68, 0), 12, ctypes.c_int64(128), ctypes.c_int32(128)),
    ("MatrixLayout", (0, 5, 3, 5), 5, ctypes.c_int32(2), ctypes.c_int64(2)),
    ("MatrixLayout", (1, 5, 3, 5), 6, ctypes.c_int64(15), ctypes.c_int32(15)),
    ("MatmulPreference", (), 1, ctypes.c_uint64(1 << 25), ctypes.c_uint32(1 << 25)),
    *(
        ("MatmulPreference", (), k, ctypes.c_uint32(16), ctypes.c_uint64(16))
        for k in cublaslt._ALIGNMENTS
    ),
]


@pytest.mark.parametrize(("what", "args", "attribute", "right", "wrong"), SETTINGS)
def test_attributes_have_the_size_that_the_library_says(what, args, attribute, right, wrong):
    for library in libraries():
        one = cublaslt._Described(library, what, *args)
        one.set(attribute, right)
        with pytest.raises(Refused, match="INVALID_VALUE"):
            one.set(attribute, wrong)
        with pytest.raises(Refused, match="INVALID_VALUE"):
            one.set(99, right)


def test_every_attribute_that_is_set_is_compared_with_the_library():
    names = ("_TRANSA", "_TRANSB", "_EPILOGUE", "_BIAS", "_AUX", "_AUX_LD", "_BATCH_COUNT")
    numbers = {getattr(cublaslt, name) for name in (*names, "_BATCH_STEP", "_MOST_WORKSPACE")}
    assert numbers | set(cublaslt._ALIGNMENTS) == {attribute for _, _, attribute, *_ in SETTINGS}


def test_the_library_is_one_of_those_that_are_known():
    for library in libraries():
        assert library.version[0] in (12, 13)
        for status, name in ((7, "INVALID_VALUE"), (15, "NOT_SUPPORTED"), (1, "NOT_INITIALIZED")):
            said = library._library.cublasLtGetStatusName(status)
            assert said == b"CUBLAS_STATUS_" + name.encode()


NUMBERS = {
    "CUBLASLT_MATMUL_DESC_TRANSA": cublaslt._TRANSA,
    "CUBLASLT_MATMUL_DESC_TRANSB": cublaslt._TRANSB,
    "CUBLASLT_MATMUL_DESC_EPILOGUE": cublaslt._EPILOGUE,
    "CUBLASLT_MATMUL_DESC_BIAS_POINTER": cublaslt._BIAS,
    "CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER": cublaslt._AUX,
    "CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD": cublaslt._AUX_LD,
    "CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT": cublaslt._BATCH_COUNT,
    "CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET": cublaslt._BATCH_STEP,
    "CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES": cublaslt._MOST_WORKSPACE,
    **{
        f"CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_{name}_BYTES": number
        for name, number in zip("ABCD", cublaslt._ALIGNMENTS, strict=True)
    },
    "CUBLASLT_EPILOGUE_DEFAULT": cublaslt.EPILOGUES[""],
    "CUBLASLT_EPILOGUE_BGRADB": cublaslt.EPILOGUES["bgrad"],
    **{
        f"CUBLASLT_EPILOGUE_{name.upper()}": number
        for name, number in cublaslt.EPILOGUES.items()
        if name not in ("", "bgrad")
    },
    "CUBLAS_COMPUTE_32F": cublaslt._COMPUTE["f4"],
    "CUBLAS_COMPUTE_64F": cublaslt._COMPUTE["f8"],
    "CUBLAS_COMPUTE_32F_FAST_TF32": cublaslt._COMPUTE_TF32,
    "CUBLAS_OP_N": 0,
    "CUBLAS_OP_T": 1,
    "CUBLASLT_ORDER_COL": 0,
    "CUBLAS_STATUS_SUCCESS": cublaslt._SUCCESS,
    "CUBLAS_STATUS_INVALID_VALUE": cublaslt._REFUSALS[0],
    "CUBLAS_STATUS_ARCH_MISMATCH": cublaslt._REFUSALS[1],
    "CUBLAS_STATUS_NOT_SUPPORTED": cublaslt._REFUSALS[2],
}


def test_numbers_are_those_of_the_headers():
    """Which lie beside the library, where a wheel or a toolkit brings it."""
    try:
        folder = Path(cublaslt.cublaslt().path).resolve().parents[1] / "include"
        text = (folder / "cublasLt.h").read_text() + (folder / "cublas_api.h").read_text()
    except (BackendError, OSError) as error:
        pytest.skip(f"no headers of cuBLASLt: {error}")
    known = {}
    for name, value in re.findall(r"^\s*(CUBLAS\w+) = ([^,\n/]+)", text, re.MULTILINE):
        with contextlib.suppress(NameError, SyntaxError):
            known[name] = eval(value, {}, known)
    assert {name: known[name] for name in NUMBERS} == NUMBERS
    [words] = re.findall(r"uint64_t data\[(\d+)\];\s*} cublasLtMatmulAlgo_t;", text)
    assert ctypes.sizeof(cublaslt.Heuristic) == 8 * int(words) + 8 + 4 + 4 + 4 * 4


def test_sizes_of_structs():
    assert ctypes.sizeof(cublaslt.Heuristic) == 96
