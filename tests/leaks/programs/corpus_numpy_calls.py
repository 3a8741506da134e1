"""NumPy and SciPy in forward: numbers made from numbers."""

import functools
import itertools
import math
import operator
import statistics

import chainer
import chainer.functions as F
import numpy as np
import scipy.linalg
import scipy.ndimage
import scipy.signal
import scipy.sparse
import scipy.special
import scipy.stats

from tests.leaks.programs._kit import Normed, forward, function, images, labelled, table, variables

f32 = np.float32
GRID = np.linspace(0, 1, 4, dtype="f")

table(
    globals(),
    forward,
    {
        "standardize": lambda self, x: self.net((x - x.mean(0)) / (x.std(0) + f32(1e-3))),
        "min_max": lambda self, x: self.net((x - x.min()) / (x.max() - x.min())),
        "cumsum": lambda self, x: self.net(x.cumsum(axis=0)),
        "cumprod": lambda self, x: self.net(np.cumprod(x, axis=1)),
        "diff": lambda self, x: self.net(np.diff(x, axis=1, prepend=f32(0))),
        "ediff1d": lambda self, x: self.net(x) + np.ediff1d(x[0]),
        "gradient": lambda self, x: self.net(np.gradient(x, axis=1)),
        "maximum_accumulate": lambda self, x: self.net(np.maximum.accumulate(x, axis=0)),
        "add_reduce": lambda self, x: self.net(x) + np.add.reduce(x, axis=1)[:, None],
        "add_reduceat": lambda self, x: self.net(x) + np.add.reduceat(x[:, 0], [0, 2])[0],
        "multiply_outer": lambda self, x: self.net(x) + np.multiply.outer(x[:, 0], GRID[:3]),
        "percentile": lambda self, x: self.net(
            x - f32(1) * np.percentile(x, 30, axis=0).astype("f")
        ),
        "quantile": lambda self, x: self.net(x) * np.quantile(x, [0.2, 0.5, 0.8]).astype("f"),
        "median": lambda self, x: self.net(x - np.median(x, axis=0)),
        "nanmean": lambda self, x: self.net(x - np.nanmean(np.where(x > 1, np.nan, x), axis=0)),
        "average_weights": lambda self, x: self.net(
            x - np.average(x, axis=0, weights=np.abs(x[:, 0]))
        ),
        "var_ddof": lambda self, x: self.net(x / np.var(x, axis=0, ddof=1)),
        "ptp": lambda self, x: self.net(x / np.ptp(x)),
        "cov": lambda self, x: self.net(x @ np.cov(x.T).astype("f")),
        "corrcoef": lambda self, x: self.net(x @ np.corrcoef(x, rowvar=False).astype("f")),
        "svd": lambda self, x: self.net(x) * np.linalg.svd(x, compute_uv=False)[0],
        "svd_three": lambda self, x: self.net(
            (lambda u, s, v: (u * s) @ v)(*np.linalg.svd(x, False))
        ),
        "norm": lambda self, x: self.net(x / np.linalg.norm(x, axis=1, keepdims=True)),
        "norm_scalar": lambda self, x: self.net(x / np.linalg.norm(x)),
        "inv": lambda self, x: self.net(x @ np.linalg.inv(np.eye(4, dtype="f") + x.T @ x)),
        "solve": lambda self, x: self.net(np.linalg.solve(np.eye(4, dtype="f") + x.T @ x, x.T).T),
        "det": lambda self, x: self.net(x) * np.linalg.det(x[:3, :3]),
        "eigh": lambda self, x: self.net(x) + np.linalg.eigh(x.T @ x)[0][:3],
        "qr": lambda self, x: self.net(np.linalg.qr(x)[0]),
        "cholesky": lambda self, x: self.net(
            x @ np.linalg.cholesky(np.eye(4) + x.T @ x).astype("f")
        ),
        "lstsq": lambda self, x: self.net(x) + np.linalg.lstsq(x[:, :3], x[:, 3], rcond=None)[0],
        "matrix_rank": lambda self, x: self.net(x) / np.linalg.matrix_rank(x),
        "multi_dot": lambda self, x: self.net(np.linalg.multi_dot([x, x.T, x])),
        "matrix_power": lambda self, x: self.net(
            x @ np.linalg.matrix_power(x[:3, :].T @ x[:3, :], 2)
        ),
        "kron": lambda self, x: self.net(np.kron(x[:, :2], GRID[:2])),
        "cross": lambda self, x: self.net(x) + np.cross(x[:, :3], x[:, 1:]),
        "inner": lambda self, x: self.net(np.inner(x, np.eye(4, dtype="f") * 2)),
        "tensordot": lambda self, x: self.net(
            np.tensordot(x, x[:3], axes=([1], [1]))[:, [0, 1, 2, 2]]
        ),
        "vdot": lambda self, x: self.net(x) * np.vdot(x, x),
        "convolve": lambda self, x: self.net(
            np.stack([np.convolve(r, [1, 1], "same") for r in x]).astype("f")
        ),
        "correlate": lambda self, x: self.net(x) + np.correlate(x[:, 0], x[:, 1]),
        "interp": lambda self, x: self.net(np.interp(x, [-1, 0, 1], [0, 5, 0]).astype("f")),
        "polyval": lambda self, x: self.net(np.polyval([1, 0.5, 0], x).astype("f")),
        "polyfit": lambda self, x: self.net(x) * np.polyfit(x[:, 0], x[:, 1], 1)[0],
        "fft": lambda self, x: self.net(np.abs(np.fft.fft(x, axis=1)).astype("f")),
        "rfft_stack": lambda self, x: self.net(
            np.stack([np.fft.rfft(x).real, np.fft.rfft(x).imag], 2)
            .reshape(len(x), -1)[:, :4]
            .astype("f")
        ),
        "trapezoid": lambda self, x: self.net(x) * np.trapezoid(x[0]),
        "meshgrid": lambda self, x: self.net(np.meshgrid(GRID, x[:, 0])[1] * x),
        "apply_along_axis": lambda self, x: self.net(
            np.apply_along_axis(lambda r: r - r.max(), 1, x)
        ),
        "vectorize": lambda self, x: self.net(
            np.vectorize(lambda v: v * 2 if v > 0 else v)(x).astype("f")
        ),
        "frompyfunc": lambda self, x: self.net(np.frompyfunc(lambda v: v * 2, 1, 1)(x).astype("f")),
        "fromiter": lambda self, x: self.net(x) + np.fromiter((r.sum() for r in x), "f")[:, None],
        "array_of_list": lambda self, x: self.net(np.array([r / r.sum() for r in x], "f")),
        "asarray_list_of_floats": lambda self, x: (
            self.net(x) + np.asarray([float(x[0, i]) for i in range(3)], "f")
        ),
        "array_of_tolist": lambda self, x: self.net(np.array(x.tolist(), dtype="f")),
        "sum_builtin": lambda self, x: self.net(x) + sum(x)[:3],
        "max_builtin_key": lambda self, x: self.net(max(x, key=lambda r: r[0])[None]),
        "reduce": lambda self, x: self.net(functools.reduce(operator.add, x)[None]),
        "accumulate": lambda self, x: self.net(np.stack(list(itertools.accumulate(x)))),
        "map_list": lambda self, x: self.net(np.stack(list(map(np.sort, x)))),
        "math_exp_item": lambda self, x: self.net(x) * math.exp(x[0, 0]),
        "math_sqrt_sum": lambda self, x: self.net(x) / math.sqrt((x**2).sum()),
        "math_isclose": lambda self, x: self.net(x) * math.isclose(x[0, 0], 0, abs_tol=1),
        "math_floor_mean": lambda self, x: self.net(x) * math.floor(x.mean() * 10),
        "statistics_mean": lambda self, x: self.net(x) * statistics.mean(x[:, 0].tolist()),
        "fsum": lambda self, x: self.net(x) * math.fsum(x.ravel()),
        "hypot": lambda self, x: self.net(np.hypot(x, 1)),
        "arctan2": lambda self, x: self.net(np.arctan2(x[:, ::-1], x)),
        "sign": lambda self, x: self.net(np.sign(x)),
        "copysign": lambda self, x: self.net(np.copysign(GRID + x * x, x)),
        "round": lambda self, x: self.net(np.round(x, 1)),
        "floor_mod": lambda self, x: self.net(x // f32(0.5) + x % f32(0.3)),
        "divmod": lambda self, x: self.net(np.divmod(x, f32(0.5))[1]),
        "modf": lambda self, x: self.net(np.modf(x)[0]),
        "frexp": lambda self, x: self.net(np.frexp(x)[0]),
        "logaddexp": lambda self, x: self.net(np.logaddexp(x, x[::-1])),
        "heaviside": lambda self, x: self.net(np.heaviside(x, f32(0.5))),
        "nan_to_num": lambda self, x: self.net(
            np.nan_to_num(np.log(np.where(x > 0, x, 0)), neginf=-3)
        ),
        "bitwise": lambda self, x: self.net(((x > 0) & (x < 1) | (x < -1)).astype("f")),
        "logical_xor": lambda self, x: self.net(np.logical_xor(x > 0, x[::-1] > 0).astype("f")),
        "invert": lambda self, x: self.net((~(x > 0)).astype("f")),
        "power_signed": lambda self, x: self.net(np.abs(x) ** f32(0.5) * np.sign(x)),
        "count_nonzero": lambda self, x: self.net(x) / (1 + np.count_nonzero(x > 0)),
        "any_all": lambda self, x: self.net(x) * ((x > 2).any() + (x > -2).all()),
        "allclose": lambda self, x: self.net(x) * np.allclose(x, 0, atol=2),
        "array_equal": lambda self, x: self.net(x) * np.array_equal(x > 0, x[::-1] > 0),
        "float64_detour": lambda self, x: self.net(
            (x.astype("d") ** 2).sum(1, keepdims=True).astype("f") + x
        ),
        "float16_detour": lambda self, x: self.net(x.astype("e").astype("f")),
        "int_detour": lambda self, x: self.net((x * 10).astype("i").astype("f") / f32(10)),
        "uint8_wrap": lambda self, x: self.net(
            (np.abs(x) * 200).astype("u1").astype("f") / f32(255)
        ),
        "promote_scalar": lambda self, x: self.net((x * np.float64(2)).astype("f")),
        "dtype_of": lambda self, x: self.net(np.zeros(x.shape, x.dtype) + x.max()),
        "finfo": lambda self, x: self.net(x + np.finfo(x.dtype).eps),
        "ascontiguous_T": lambda self, x: self.net(np.ascontiguousarray(x[:3].T) @ x[:3]),
        "softmax_by_hand": lambda self, x: self.net(
            np.exp(x - x.max(1, keepdims=True))
            / np.exp(x - x.max(1, keepdims=True)).sum(1, keepdims=True)
        ),
        "sp_softmax": lambda self, x: self.net(scipy.special.softmax(x, axis=1)),
        "sp_expit": lambda self, x: self.net(scipy.special.expit(x)),
        "sp_logsumexp": lambda self, x: self.net(
            x - scipy.special.logsumexp(x, axis=1, keepdims=True)
        ),
        "sp_erf": lambda self, x: self.net(scipy.special.erf(x)),
        "sp_zscore": lambda self, x: self.net(scipy.stats.zscore(x, axis=0)),
        "sp_rank": lambda self, x: self.net(scipy.stats.rankdata(x, axis=0).astype("f")),
        "sp_norm_pdf": lambda self, x: self.net(scipy.stats.norm.pdf(x).astype("f")),
        "sp_filter": lambda self, x: self.net(scipy.ndimage.gaussian_filter1d(x, 1, axis=1)),
        "sp_lfilter": lambda self, x: self.net(
            scipy.signal.lfilter([1], [1, -0.9], x, axis=1).astype("f")
        ),
        "sp_expm": lambda self, x: self.net(x @ scipy.linalg.expm((x.T @ x) / 30)),
        "sp_csr": lambda self, x: self.net(
            scipy.sparse.csr_matrix(np.where(x > 0, x, 0)).toarray()
        ),
        "sp_csr_dot": lambda self, x: self.net(
            scipy.sparse.csr_matrix(x > 0).astype("f") @ np.eye(4, dtype="f")
        ),
        "np_from_outside_closure": lambda self, x: self.net(x + GRID),
        "errstate": lambda self, x: self.net(_log(x)),
        "hidden_numpy": lambda self, x: self.l2(np.tanh(self.l1(x).array)),
        "hidden_stats": lambda self, x: (lambda h: self.l2(h / h.array.std()))(self.l1(x)),
        "hidden_max_scale": lambda self, x: (lambda h: self.l2(h / abs(h.array).max()))(self.l1(x)),
        "weight_norm_numpy": lambda self, x: self.net(x) / np.linalg.norm(self.l2.W.array),
        "weight_mean_float": lambda self, x: self.net(x) * float(self.l1.W.array.mean()),
        "weight_mean_array": lambda self, x: self.net(x) * self.l1.W.array.mean(),
        "positional_encoding": lambda self, x: self.net(
            x + np.sin(np.arange(4) / 10**GRID).astype("f")
        ),
        "xp_arange_len": lambda self, x: self.net(x + self.xp.arange(len(x), dtype="f")[:, None]),
        "get_array_module": lambda self, x: self.net(chainer.backend.get_array_module(x).tanh(x)),
        "from_chx_to_numpy": lambda self, x: self.net(chainer.backends.cuda.to_cpu(x)),
        "device_send": lambda self, x: self.net(self.device.send(x)),
    },
)


def _log(x):
    with np.errstate(all="ignore"):
        return np.nan_to_num(np.log(x), nan=0, neginf=0).astype("f")


table(
    globals(),
    forward,
    {
        "img_flip_random_side": lambda self, x: (
            F.sum(x[..., ::-1], axis=(1, 2, 3)) * self.l1.W[0, 0]
        ),
        "img_crop_by_argmax": lambda self, x: (
            F.sum(x[:, :, x[0, 0].max(1).argmax() :], axis=(1, 2, 3)) * self.l1.W[0, 0]
        ),
        "img_mean_subtract": lambda self, x: (
            F.average_pooling_2d(x - x.mean((0, 2, 3), keepdims=True), 4) * self.l1.W[0, 0]
        ),
        "img_gray_stack": lambda self, x: F.sum(np.repeat(x, 3, 1)) * self.l1.W[0, 0],
        "img_threshold": lambda self, x: F.sum((x > x.mean()).astype("f")) * self.l1.W[0, 0],
        "img_zoom": lambda self, x: (
            F.sum(scipy.ndimage.zoom(x, (1, 1, 0.5, 0.5), order=1)) * self.l1.W[0, 0]
        ),
        "img_to_uint8": lambda self, x: (
            F.sum(np.clip(x * 127 + 128, 0, 255).astype("u1").astype("f")) * self.l1.W[0, 0]
        ),
        "img_pad_then_crop": lambda self, x: (
            F.sum(np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))[:, :, :8, 2:] * x[:, :, ::-1])
            * self.l1.W[0, 0]
        ),
    },
    inputs=images,
)

table(
    globals(),
    function,
    {
        "fn_pair_distance": lambda x: F.sqrt(F.sum((x[:, None] - x[None]) ** 2, axis=2) + 1e-3),
        "fn_rbf_median_bandwidth": lambda x: F.exp(-F.sum(F.square(x), axis=1) / np.median(x**2)),
        "fn_argmax": lambda x: F.argmax(x, axis=1),
        "fn_numpy_only": lambda x: x * 2 + 1,
        "fn_numpy_scalar": lambda x: x.mean(),
        "fn_python_float": lambda x: float(x.mean()),
        "fn_tuple_mixed": lambda x: (F.sum(x), x.shape, "name", None, 3),
        "fn_dict_result": lambda x: {"y": F.relu(x), "n": len(x)},
        "fn_same_array_back": lambda x: x,
        "fn_variable_of_argument": lambda x: chainer.Variable(x),
        "fn_view_back": lambda x: x[1:],
        "fn_constant_array": lambda x: np.arange(3),
        "fn_list_of_rows": lambda x: list(x),
        "fn_bool_result": lambda x: x > 0,
        "fn_python_bool": lambda x: bool(x[0, 0] > 0),
        "fn_string_of_value": lambda x: f"{x[0, 0]:.3f}",
        "fn_tolist": lambda x: x.argmax(1).tolist(),
        "fn_shape_only": lambda x: x.shape[0],
        "fn_variable_array": lambda x: F.relu(x).array,
        "fn_copy": lambda x: x.copy(),
    },
)

table(
    globals(),
    forward,
    {
        "var_shape_arith": lambda self, x: self.net(x) / np.prod(x.shape),
        "var_np_ufunc_on_array": lambda self, x: self.net(x) * np.exp(-np.abs(x.array[:, :3])),
        "var_np_mean_of_variable_array": lambda self, x: self.net(x - x.array.mean(axis=0)),
        "var_mul_numpy_left": lambda self, x: x.array[:, :3] * self.net(x),
        "var_pow_int": lambda self, x: self.net(x**2),
        "var_rpow": lambda self, x: self.net(2**x),
        "var_floordiv": lambda self, x: self.net(x // 0.5) + self.net(x),
        "var_neg_abs": lambda self, x: self.net(-abs(x)),
        "var_matmul_operator": lambda self, x: x @ self.l1.W.T @ self.l2.W.T,
        "var_iadd": lambda self, x: _iadd(self.net(x), x),
        "var_compare_arrays": lambda self, x: self.net(x) * (x.array > 0).mean(),
        "var_where_condition": lambda self, x: F.where(x.array[:, :3] > 0, self.net(x), x[:, :3]),
        "var_summary": lambda self, x: self.net(x) if "variable" in repr(type(x)) else None,
        "var_label": lambda self, x: self.net(x) * len(x.label),
        "var_debug_print_len": lambda self, x: self.net(x) * len(x.debug_print()),
        "var_repr": lambda self, x: self.net(x) * len(repr(x)),
        "var_str_array": lambda self, x: self.net(x) * str(x.array).count("-"),
        "var_id": lambda self, x: self.net(x) * (id(x) == id(x)),
        "var_item": lambda self, x: self.net(x) * F.sum(x).item(),
        "var_rank": lambda self, x: self.net(x) * x.rank if x.rank else self.net(x),
        "var_creator": lambda self, x: self.net(x) if self.net(x).creator is not None else None,
        "var_xp": lambda self, x: self.net(x) + x.xp.zeros((len(x), 3), x.dtype),
        "var_grad_is_none": lambda self, x: self.net(x) * (x.grad is None),
        "var_mean_method": lambda self, x: self.net(x - x.mean(axis=0)[None].array),
        "var_sum_builtin": lambda self, x: sum(self.net(x)),
    },
    inputs=variables,
)


def _iadd(y, x):
    y += x[:, :3]
    y *= 2
    y -= 1
    return y


table(
    globals(),
    forward,
    {
        "bn_plus_numpy_mean": lambda self, x, t: self.l2(self.bn(self.l1(x)) + x.mean()),
        "bn_mean_read": lambda self, x, t: self.l2(self.bn(self.l1(x)) - self.bn.avg_mean),
        "bn_momentum_by_batch": lambda self, x, t: self.l2(self.bn(self.l1(x))) * self.bn.N,
        "bn_two_calls": lambda self, x, t: self.l2(self.bn(self.l1(x)) * self.bn(self.l1(x * x))),
        "bn_per_class": lambda self, x, t: [
            self.bn(self.l1(x[t == c])) for c in range(2) if sum(t == c) > 1
        ],
        "bn_test_inside": lambda self, x, t: self.l2(_tested(self.bn, self.l1(x))),
        "bn_weights_by_label": lambda self, x, t: self.l2(self.bn(self.l1(x))) * (t == 1)[:, None],
    },
    inputs=labelled,
    net=Normed,
)


def _tested(bn, h):
    with chainer.using_config("train", False):
        return bn(h)
