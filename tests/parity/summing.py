"""Calls of functions that sum, with sums of 500 to 20,000 terms, for `test_accuracy_of_sums`."""

from __future__ import annotations

import functools

from chainer import functions as F

from .sums import Case


def normal(*shape, mean=0.0, scale=1.0):
    return lambda rng: mean + scale * rng.standard_normal(shape)


def unit(*shape):
    """Between 0 and 1."""
    return lambda rng: rng.random(shape)


def labels(n, *shape):
    return lambda rng: rng.integers(0, n, shape).astype("i")


def with_options(call, **options):
    return functools.partial(call, **options)


def _each(*xs, call):
    """Of many rows one after another: results of single numbers, and many of them."""
    return F.stack([call(*rows) for rows in zip(*map(F.separate, xs), strict=True)])


# --- products -------------------------------------------------------------------------------------
def _mlp(x, v, w, activation):
    return F.linear(activation(F.linear(x, v)), w)


def _factors(n, k, m, transa=False, transb=False, batch=()):
    a, b = (k, n) if transa else (n, k), (m, k) if transb else (k, m)
    call = functools.partial(F.matmul, transa=transa, transb=transb)
    return call, [normal(*batch, *a), normal(*batch, *b)]


PRODUCTS = {
    "linear": Case(F.linear, [normal(9001, 19), normal(25, 19), normal(25)], "linear gemm sum", 3),
    "linear of long rows": Case(F.linear, [normal(9, 20000), normal(13, 20000)], "linear gemm"),
    "linear of one row": Case(F.linear, [normal(1, 20000), normal(40, 20000)], "linear gemm", 3),
    "linear to many": Case(F.linear, [normal(5, 30), normal(20000, 30)], "linear gemm"),
    **{
        f"linear behind {f.__name__}": Case(
            functools.partial(_mlp, activation=f),
            [normal(500, 9), normal(20, 9, scale=0.3), normal(500, 20, scale=0.3)],
            "linear gemm_mask",
        )
        for f in (F.relu, F.tanh)
    },
    **{
        f"matmul, transposed {a}, {b}": Case(*_factors(11, 20000, 13, a, b), "gemm")
        for a in (False, True)
        for b in (False, True)
    },
    "matmul of 17 and 2 columns": Case(*_factors(17, 20000, 2), "gemm"),
    "matmul of blocks": Case(*_factors(80, 700, 200), "gemm"),
    "matmul of vectors": Case(
        functools.partial(_each, call=F.matmul), [normal(30, 3001), normal(30, 3001)], "gemm", 8
    ),
    **{
        f"batches of matmul, transposed {a}, {b}": Case(
            *_factors(5, 3000, 6, a, b, (4,)), "batch_matmul"
        )
        for a, b in ((False, False), (False, True), (True, False))
    },
    "tensordot": Case(
        with_options(F.tensordot, axes=((1, 2), (0, 1))), [normal(5, 100, 90), normal(100, 90, 7)],
        "gemm",
    ),
    "einsum": Case(
        lambda a, b: F.einsum("ijk,kjl->il", a, b), [normal(5, 100, 90), normal(90, 100, 7)], ""
    ),
}  # fmt: skip


# --- convolutions ---------------------------------------------------------------------------------
def convolution(call, x, w, bias=None, rounds=1, **options):
    """Of x with w; a bias per channel of the output unless there is no number of them."""
    ops = "convolution convolution_grad_x convolution_grad_w" + (" sum" if bias else "")
    shapes = [normal(*x), normal(*w)] + ([normal(bias)] if bias else [])
    return Case(functools.partial(call, **options), shapes, ops, rounds)


CONVOLUTIONS = {
    "convolution 1d": convolution(F.convolution_1d, (4, 5, 5000), (6, 5, 3), pad=1),
    "convolution 2d": convolution(F.convolution_2d, (8, 5, 50, 50), (6, 5, 3, 3), pad=1),
    "convolution 2d, with bias": convolution(
        F.convolution_2d, (3, 9, 30, 30), (80, 9, 1, 1), 80, rounds=3
    ),
    "convolution 2d, one image": convolution(F.convolution_2d, (1, 3, 150, 150), (17, 3, 3, 3)),
    "convolution 2d, small images": convolution(F.convolution_2d, (900, 4, 5, 5), (8, 4, 3, 3)),
    "convolution 2d, 1 x 1": convolution(F.convolution_2d, (4, 13, 60, 60), (6, 13, 1, 1)),
    "convolution 2d, many channels": convolution(
        F.convolution_2d, (2, 1200, 4, 4), (9, 1200, 3, 3), pad=1
    ),
    "convolution 2d, to 28 channels": convolution(
        F.convolution_2d, (4, 24, 14, 14), (28, 24, 3, 3), pad=1
    ),
    "convolution 2d, to 8 channels": convolution(
        F.convolution_2d, (4, 12, 14, 14), (8, 12, 5, 5), pad=2
    ),
    "convolution 2d, to many channels": convolution(
        F.convolution_2d, (2, 9, 6, 6), (3000, 9, 2, 2)
    ),
    "convolution 2d, large windows": convolution(F.convolution_2d, (1, 2, 60, 60), (3, 2, 51, 51)),
    "convolution 2d, strided": convolution(
        F.convolution_2d, (4, 4, 121, 119), (6, 4, 3, 3), stride=2
    ),
    "convolution 2d, dilated": convolution(
        F.convolution_2d, (4, 4, 61, 60), (6, 4, 3, 3), pad=2, dilate=2
    ),
    "convolution 2d, groups": convolution(
        F.convolution_2d, (4, 6, 60, 60), (8, 3, 3, 3), pad=1, groups=2
    ),
    "convolution 2d, depthwise": convolution(
        F.convolution_2d, (4, 6, 70, 70), (6, 1, 3, 3), pad=1, groups=6
    ),
    "convolution 2d, depthwise, one image": convolution(
        F.convolution_2d, (1, 8, 150, 150), (16, 1, 3, 3), pad=1, groups=8
    ),
    "convolution 2d, depthwise, many images": convolution(
        F.convolution_2d, (900, 6, 5, 5), (6, 1, 3, 3), pad=1, groups=6
    ),
    "convolution 2d, depthwise, strided": convolution(
        F.convolution_2d, (4, 6, 141, 141), (6, 1, 3, 3), pad=1, groups=6, stride=2
    ),
    "convolution 3d": convolution(F.convolution_3d, (2, 3, 20, 21, 22), (5, 3, 2, 3, 3)),
    "deconvolution 1d": convolution(F.deconvolution_1d, (4, 5, 4000), (5, 6, 4), stride=2),
    "deconvolution 2d": convolution(F.deconvolution_2d, (4, 5, 40, 40), (5, 4, 3, 3), pad=1),
    "deconvolution 2d, strided": convolution(
        F.deconvolution_2d, (4, 5, 50, 50), (5, 4, 4, 4), stride=2, pad=1
    ),
    "deconvolution 2d, many channels": convolution(
        F.deconvolution_2d, (2, 1200, 5, 5), (1200, 5, 3, 3)
    ),
    "deconvolution 2d, one channel": convolution(
        F.deconvolution_2d, (2, 500, 16, 16), (500, 1, 4, 4), stride=2
    ),
    "deconvolution 2d, depthwise": convolution(
        F.deconvolution_2d, (4, 6, 70, 70), (6, 1, 3, 3), pad=1, groups=6
    ),
    "deconvolution 3d": convolution(F.deconvolution_3d, (2, 4, 15, 16, 17), (4, 3, 2, 3, 3)),
}


# --- sums along axes ------------------------------------------------------------------------------
def along(function, shape, ops, rounds=1, mean=0.0, **options):
    return Case(functools.partial(function, **options), [normal(*shape, mean=mean)], ops, rounds)


def _spread(x, to):
    return F.broadcast_to(x, to)


def _sum_to(x, to):
    return F.sum_to(x, to)


SUMS = {
    "sum": along(_each, (30, 7001), "sum", 7, call=F.sum),
    "sum of rows": along(F.sum, (300, 2001), "sum", axis=1),
    "sum of short rows": along(F.sum, (2000, 300), "sum", axis=1),
    "sum of columns": along(F.sum, (5001, 70), "sum", axis=0),
    "sum of many columns": along(F.sum, (2001, 333), "sum", axis=0),
    "sum of few columns": along(F.sum, (9001, 7), "sum", 30, axis=0),
    "sum of positive few columns": along(F.sum, (9001, 7), "sum", 30, mean=2.0, axis=0),
    "sum of planes": along(F.sum, (9, 40, 25, 25), "sum", 5, axis=(0, 2, 3)),
    "sum of a middle axis": along(F.sum, (5, 3001, 21), "sum", axis=1),
    "mean": along(_each, (30, 7001), "mean", 7, call=F.mean),
    "mean of rows": along(F.mean, (300, 2001), "mean", axis=1),
    "mean of columns": along(F.mean, (5001, 70), "mean", axis=0),
    "weighted average": Case(
        lambda x, w: F.average(x, axis=0, weights=w), [normal(2001, 9), unit(2001)], "sum", 12
    ),
    "variance": Case(
        lambda x: F.mean((x - F.broadcast_to(F.mean(x, 0, keepdims=True), x.shape)) ** 2, axis=0),
        [normal(5001, 70, mean=1.0)], "mean",
    ),
    "logsumexp": along(F.logsumexp, (50, 9001), "", axis=1),
    "logsumexp of columns": along(F.logsumexp, (9001, 50), "", axis=0),
    "softmax": along(F.softmax, (50, 4001), "softmax softmax_grad"),
    "softmax of columns": along(F.softmax, (3, 3001, 25), "softmax softmax_grad"),
    "log_softmax": along(F.log_softmax, (50, 4001), "log_softmax log_softmax_grad"),
    "log_softmax of columns": along(
        F.log_softmax, (3, 3001, 25), "log_softmax log_softmax_grad"
    ),
    "broadcast_to": along(_spread, (200,), "sum", to=(3000, 200)),
    "broadcast_to, long rows": along(_spread, (200, 1), "sum", to=(200, 3000)),
    "sum_to": along(_sum_to, (30, 200, 50), "sum", to=(200, 1)),
    "bias": Case(F.bias, [normal(30, 50, 100), normal(50)], "sum", rounds=4),
    "scale": Case(F.scale, [normal(30, 50, 100), normal(50)], "sum", rounds=4),
    "prelu": Case(F.prelu, [normal(30, 50, 100), normal(50)], "sum", rounds=4),
    "maxout": Case(lambda x: F.sum(F.maxout(x, 4), 0), [normal(9000, 24)], "sum"),
    "cumsum": along(F.cumsum, (9001, 12), "cumsum", axis=0),
    "cumsum of rows": along(F.cumsum, (12, 9001), "cumsum", axis=1),
    "cumprod": Case(
        with_options(F.cumprod, axis=0), [normal(1001, 50, mean=1.0, scale=0.05)],
        "cumprod cumprod_grad",
    ),
    "prod": Case(
        with_options(F.prod, axis=0), [normal(2001, 50, mean=1.0, scale=0.05)], "prod prod_grad"
    ),
    "normalize": Case(with_options(F.normalize, axis=1), [normal(50, 9001)], ""),
    "normalize columns": Case(with_options(F.normalize, axis=0), [normal(9001, 50)], ""),
    "batch_l2_norm_squared": Case(F.batch_l2_norm_squared, [normal(50, 9001)], ""),
    "cosine": Case(
        lambda x, y: F.sum(F.normalize(x) * F.normalize(y), axis=1),
        [normal(100, 2001), normal(100, 2001, mean=0.5)], "sum", rounds=4,
    ),
    "absolute error of axes": Case(
        lambda x, y: F.sum(F.absolute(x - y), axis=0), [normal(9001, 20), normal(9001, 20)], "sum"
    ),
}  # fmt: skip


# --- losses ---------------------------------------------------------------------------------------
def loss(call, *inputs, ops="", rounds=50, **options):
    return Case(functools.partial(call, **options), inputs, ops, rounds)


def _ctc(x, t):
    return F.connectionist_temporal_classification(list(F.separate(x)), t, 0, reduce="no")


def _crf(cost, x, t):
    return F.crf1d(cost, list(F.separate(x)), list(t), reduce="no")


LOSSES = {
    "softmax_cross_entropy": loss(
        F.softmax_cross_entropy, normal(3000, 4), labels(4, 3000), ops="softmax_cross_entropy"
    ),
    "softmax_cross_entropy of many classes": loss(
        F.softmax_cross_entropy, normal(20, 9001), labels(9001, 20), rounds=5, reduce="no",
        ops="softmax_cross_entropy_no_reduce",
    ),
    "softmax_cross_entropy of pixels": loss(
        F.softmax_cross_entropy, normal(3, 3, 30, 30), labels(3, 3, 30, 30),
        ops="softmax_cross_entropy",
    ),
    "softmax_cross_entropy of many classes of pixels": loss(
        F.softmax_cross_entropy, normal(1, 5001, 6, 7), labels(5001, 1, 6, 7), rounds=5,
        reduce="no", ops="softmax_cross_entropy_no_reduce",
    ),
    "sigmoid_cross_entropy": loss(
        F.sigmoid_cross_entropy, normal(5000), labels(2, 5000), ops="sigmoid_cross_entropy"
    ),
    "mean_squared_error": loss(
        F.mean_squared_error, normal(5000), normal(5000), ops="mean_squared_error"
    ),
    "mean_absolute_error": loss(
        F.mean_absolute_error, normal(5000), normal(5000), ops="mean_absolute_error"
    ),
    "huber_loss": loss(
        F.huber_loss, normal(20, 2000), normal(20, 2000), rounds=5, delta=1.0,
        reduce="sum_along_second_axis",
    ),
    "hinge": loss(F.hinge, normal(200, 30), labels(30, 200)),
    "contrastive": loss(
        F.contrastive, normal(300, 9), normal(300, 9), labels(2, 300)
    ),
    "triplet": loss(F.triplet, normal(300, 9), normal(300, 9), normal(300, 9)),
    "gaussian_kl_divergence": loss(F.gaussian_kl_divergence, normal(100, 20), normal(100, 20)),
    "gaussian_nll": loss(F.gaussian_nll, normal(100, 20), normal(100, 20), normal(100, 20)),
    "bernoulli_nll": loss(F.bernoulli_nll, unit(100, 20), normal(100, 20)),
    "decov": loss(F.decov, normal(2000, 12), rounds=4, reduce="no"),
    "connectionist_temporal_classification": loss(
        _ctc, normal(40, 6, 300), labels(299, 6, 9), rounds=4, ops="ctc ctc_grad"
    ),
    "connectionist_temporal_classification of long rows": loss(
        _ctc, normal(12, 4, 2000), labels(299, 4, 3), rounds=9, ops="ctc ctc_grad"
    ),
    "crf1d": loss(_crf, normal(40, 40), normal(9, 12, 40), labels(40, 9, 12), rounds=2),
}  # fmt: skip


# --- normalization --------------------------------------------------------------------------------
def batch(shape, ops, call=F.batch_normalization, rounds=1):
    affine = [normal(shape[1], mean=1.0, scale=0.2), normal(shape[1])]
    return Case(call, [normal(*shape, mean=0.5), *affine], ops, rounds)


def _rectified(*xs):
    return F.relu(F.batch_normalization(*xs))


BN_GRAD = "batch_norm batch_norm_grad"
RESPONSE = "local_response local_response_kept_grad"

NORMALIZATIONS = {
    "batch_normalization": batch((4, 100, 20, 20), BN_GRAD, rounds=4),
    "batch_normalization of one image": batch((1, 100, 50, 50), BN_GRAD, rounds=4),
    "batch_normalization of vectors": batch((1001, 200), BN_GRAD, rounds=2),
    "batch_normalization of small images": batch((201, 100, 3, 3), BN_GRAD, rounds=4),
    "batch_normalization and relu": batch((4, 100, 20, 20), BN_GRAD, _rectified, 4),
    "batch_normalization of vectors and relu": batch((1001, 200), BN_GRAD, _rectified, 2),
    "fixed_batch_normalization": Case(
        F.fixed_batch_normalization,
        [normal(4, 100, 20, 20), *[normal(100)] * 3, normal(100, mean=2.0, scale=0.2)],
        "fixed_batch_norm batch_norm_sums", rounds=5,
    ),
    "fixed_batch_normalization of vectors": Case(
        F.fixed_batch_normalization,
        [normal(1001, 200), *[normal(200)] * 3, normal(200, mean=2.0, scale=0.2)],
        "fixed_batch_norm batch_norm_sums", rounds=3,
    ),
    "group_normalization": Case(
        lambda x, g, b: F.group_normalization(x, 3, g, b),
        [normal(4, 99, 20, 20, mean=0.5), normal(99), normal(99)], "group_norm group_norm_grad",
        rounds=4,
    ),
    "group_normalization of many images": Case(
        lambda x, g, b: F.group_normalization(x, 2, g, b),
        [normal(201, 96, 3, 3, mean=0.5), normal(96), normal(96)], "group_norm group_norm_grad",
        rounds=4,
    ),
    "layer_normalization": Case(
        F.layer_normalization, [normal(3000, 50, mean=0.5), normal(50), normal(50)],
        "group_norm group_norm_grad",
    ),
    "layer_normalization of long rows": Case(
        F.layer_normalization, [normal(20, 9001, mean=0.5), normal(9001), normal(9001)],
        "group_norm group_norm_grad",
    ),
    "layer_normalization of rows of 2,001": Case(
        F.layer_normalization, [normal(40, 2001, mean=0.5), normal(2001), normal(2001)],
        "group_norm group_norm_grad",
    ),
    "local_response_normalization": Case(
        with_options(F.local_response_normalization, n=21), [normal(2, 50, 20, 20)], RESPONSE
    ),
}  # fmt: skip


# --- pooling and places ---------------------------------------------------------------------------
def pooled(call, shape, ops, *args, **options):
    return Case(lambda x: call(x, *args, **options), [normal(*shape)], ops)


AVERAGES = "average_pooling average_pooling_grad"

PLACES = {
    "average_pooling_2d": pooled(F.average_pooling_2d, (4, 3, 120, 120), AVERAGES, 40),
    "average_pooling_2d of all": pooled(F.average_pooling_2d, (20, 5, 70, 70), "mean", 70),
    "average_pooling_2d, overlapping": pooled(
        F.average_pooling_2d, (1, 3, 60, 60), AVERAGES, 31, stride=1
    ),
    "average_pooling_2d, strided": pooled(
        F.average_pooling_2d, (2, 3, 90, 90), AVERAGES, 31, stride=3
    ),
    "average_pooling_1d": pooled(F.average_pooling_1d, (20, 5, 6000), AVERAGES, 2000),
    "average_pooling_3d": pooled(F.average_pooling_3d, (2, 3, 20, 20, 20), AVERAGES, 9, stride=2),
    "max_pooling_2d, overlapping": pooled(
        F.max_pooling_2d, (8, 12, 24, 24), "max_pooling_grad", 7, stride=1
    ),
    "unpooling_2d": pooled(F.unpooling_2d, (2, 3, 7, 7), "", 40, cover_all=False),
    "embed_id": Case(F.embed_id, [labels(5, 9000), normal(5, 40)], "scatter_add"),
    "embed_id of narrow rows": Case(F.embed_id, [labels(9, 20000), normal(9, 3)], "scatter_add"),
    "get_item": Case(
        lambda x, t: F.get_item(x, (t,)), [normal(7, 20), labels(7, 9000)], "scatter_add"
    ),
    "get_item of elements": Case(
        lambda x, t: F.get_item(x, (t,)), [normal(50), labels(50, 90000)], "scatter_add"
    ),
    "scatter_add": Case(
        lambda x, y, t: F.scatter_add(x, (t,), y),
        [normal(7, 20), normal(9000, 20), labels(7, 9000)], "scatter_add",
    ),
    "scatter_add of elements": Case(
        lambda x, y, t: F.scatter_add(x, (t,), y), [normal(50), normal(90000), labels(50, 90000)],
        "scatter_add",
    ),
    "repeat": Case(lambda x: F.repeat(x, 3000, axis=0), [normal(5, 20)], ""),
    "tile": Case(lambda x: F.tile(x, (3000, 1)), [normal(5, 20)], ""),
    "im2col": Case(lambda x: F.im2col(x, 31), [normal(1, 2, 50, 50)], ""),
}  # fmt: skip


# --- steps in time --------------------------------------------------------------------------------
def _lstm(x, w, v):
    c, h = x[0, :, : v.shape[1]] * 0, x[0, :, : v.shape[1]] * 0
    for k in range(x.shape[0]):
        c, h = F.lstm(c, F.linear(x[k], w) + F.linear(h, v))
    return c, h


def _n_step(call, n, states):
    """Of a layer: its states, x of all steps, matrices in and between steps, biases."""

    def run(*xs):
        parameters = xs[states + 1 :]
        ws, bs = [list(parameters[: 2 * n])], [list(parameters[2 * n :])]
        *ends, ys = call(1, 0.0, *xs[:states], ws, bs, list(F.separate(xs[states])))
        return (*ends, F.stack(ys))

    matrices = [normal(30, k, scale=0.2) for k in [12] * n + [30] * n]
    inputs = [normal(1, 100, 30)] * states + [normal(3, 100, 12), *matrices, *[normal(30)] * 2 * n]
    return Case(run, inputs, "", rounds=7)


STEPS = {
    "lstm": Case(
        _lstm, [normal(20, 60, 12), normal(36, 12, scale=0.3), normal(36, 9, scale=0.3)],
        "linear gemm",
    ),
    "n_step_gru": _n_step(F.n_step_gru, 3, 1),
    "n_step_lstm": _n_step(F.n_step_lstm, 4, 2),
    "n_step_rnn": _n_step(functools.partial(F.n_step_rnn, activation="tanh"), 1, 1),
}  # fmt: skip

CASES = {**PRODUCTS, **CONVOLUTIONS, **SUMS, **LOSSES, **NORMALIZATIONS, **PLACES, **STEPS}
