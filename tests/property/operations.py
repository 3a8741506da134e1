"""What random networks are made of: statements over earlier results, as source text.

In a template ``{a}``, ``{b}`` and ``{c}`` are earlier results, ``{t}`` the labels of the call and
``{axis}`` a drawn axis. Whether a statement fits the shapes that it meets is found out by running
it: what raises is left out of the network. `discovered` adds every function of
`chainer.functions` that takes one to three arrays, so a new one needs no entry here.
"""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import warnings

import sdbr  # noqa: F401  (first: it makes Chainer importable)

import chainer
import numpy as np
from chainer import functions as F

ELEMENTWISE = """
F.relu({a})
F.tanh({a})
F.sigmoid({a})
F.softplus({a})
F.elu({a}, 0.7)
F.leaky_relu({a}, 0.3)
F.clipped_relu({a}, 0.4)
F.clip({a}, -0.5, 0.5)
F.exp(-abs({a}))
F.log(1.5 + F.square({a}))
F.sqrt(1.5 + F.square({a}))
{a} * 2
1 - {a}
-{a}
{a} / 3
1 / (2 + F.square({a}))
({a} * {a} + 1) ** 1.5
2 ** F.tanh({a})
abs({a})
F.identity({a})
{a} + {a}
{a} + {b}
{a} - 0.5 * {b}
{a} * {b}
{a} / (1.5 + abs({b}))
(1.5 + abs({a})) ** F.tanh({b})
F.maximum({a}, {b})
F.minimum({a}, {b})
F.add({a}, {b}, {c})
F.linear_interpolate(F.sigmoid({a}), {b}, {c})
F.squared_error({a}, {b})
F.absolute_error({a}, {b})
F.cast(F.cast({a}, 'f4' if {a}.dtype == 'f8' else 'f8'), {a}.dtype)
""".strip().splitlines()

SHAPES = """
{a}[:, ::-1]
{a}[1:]
{a}[..., 0]
{a}[None, :, 1]
{a}[:, [0, -1]]
F.reshape({a}, (-1,))
F.reshape({a}, ({a}.shape[0], -1))
F.transpose({a})
F.swapaxes({a}, 0, {axis})
F.rollaxis({a}, {axis})
F.moveaxis({a}, 0, {axis})
F.expand_dims({a}, {axis})
F.squeeze({a})
F.flip({a}, {axis})
F.flipud({a})
F.shift({a}, 1)
F.fliplr({a})
F.concat([{a}, {b}], axis={axis})
F.concat(F.split_axis({a}, 2, axis={axis})[::-1], axis={axis})
F.split_axis({a}, 2, axis={axis})
F.split_axis({a}, [1], axis={axis})
F.separate({a}[:, :2], axis=1)
F.stack([{a}, {b}], axis={axis})
F.hstack([{a}, {b}])
F.vstack([{a}, {b}])
F.dstack([{a}, {b}])
F.broadcast({a}, {b})
F.broadcast_to(F.mean({a}, axis={axis}, keepdims=True), {a}.shape)
F.math.sum.sum_to({a}, (1,) + {a}.shape[1:])
F.select_item({a}, {t})
""".strip().splitlines()

REDUCTIONS = """
F.sum({a}, axis={axis})
F.mean({a}, axis={axis}, keepdims=True)
F.max({a}, axis={axis})
F.min({a}, axis={axis}, keepdims=True)
F.logsumexp({a}, axis={axis})
F.softmax({a}, axis={axis})
F.log_softmax({a}, axis={axis})
F.argmax({a}, axis={axis})
F.argmin({a}, axis={axis})
F.crelu({a}, axis={axis})
F.normalize({a})
F.matmul({a}, {b}, transb=True)
F.matmul({a}, F.matmul({b}, {a}, transa=True))
F.math.matmul.BatchMatMul(False, True).apply(({a}, {b}))[0]
F.mean_squared_error({a}, {b})
F.mean_absolute_error({a}, {b})
F.huber_loss({a}, {b}, 0.7)
F.softmax_cross_entropy({a}, {t})
F.softmax_cross_entropy({a}, {t}, reduce='no')
F.sigmoid_cross_entropy({a}, np.stack([{t} % 2] * {a}.shape[1], 1))
F.accuracy({a}, {t})
F.hinge({a}, {t})
""".strip().splitlines()

LINKS = """
self.a({a})
self.b({a})
self.tied({a})
self.norm({a})
self.scale({a})
self.conv({a})
self.lstm({a})
self.inner({a})
self.embed({t})
F.linear({a}, self.b.W)
{a} + self.p
{a} * F.tanh(self.p)
F.sum(self.p ** 2)
""".strip().splitlines()

# What takes more than arrays of one shape.
FUNCTIONS = """
F.prelu({a}, self.p)
F.swish({a}, self.p)
F.copy({a}, -1)
F.pad_sequence([{a}[0], {b}[0]])
F.transpose_sequence([{a}, {b}[:1]])
F.resize_images({a}, (3, 5))
F.einsum('ij...,ij...->i...', {a}, {b})
F.bilinear({a}, {b}, F.broadcast_to(self.p, (4, 4, 4)))
F.fixed_batch_normalization({a}, *self.norm.params(), self.norm.avg_mean, self.norm.avg_var)
F.group_normalization({a}, 2, self.norm.gamma, self.norm.beta)
F.layer_normalization({a}, self.p, self.p)
F.slstm({a}[:, :1], {b}[:, :1], {a}, {b})
F.tree_lstm({a}[:, :1], {b}[:, :1], F.concat([{a}, {b}[:, :1]]))
F.local_convolution_2d({a}, F.broadcast_to(self.p, (2, 2, 1, 2, 3, 4)))
F.pad({a}, 1, 'constant')
F.scatter_add({a}, {t} % 2, {b})
F.upsampling_2d(*F.max_pooling_2d({a}, 2, return_indices=True), 2)
F.classification_summary({a}, {t}, 4)[:3]
F.contrastive({a}, {b}, {t} % 2)
F.permutate({a}, np.arange({a}.shape[0])[::-1])
F.binary_accuracy({a}, np.stack([{t} % 2] * {a}.shape[1], 1))
F.connectionist_temporal_classification(F.separate({a}, 1), {t}[:, None], 3)
F.negative_sampling({a}, {t}, self.embed.W, lambda shape: np.random.randint(0, 3, shape), 2)
chainer.distributions.Bernoulli(logit={a}).log_prob(np.round(F.sigmoid({b}).array))
chainer.grad([F.einsum('ij...,ij...->i...', {a}, {b})], [{a}], enable_double_backprop=True)
chainer.grad([self.embed({t})], [self.embed.W], enable_double_backprop=True)
""".strip().splitlines()

# State, numbers, random draws and NumPy in the middle: what is no function of Chainer's.
AROUND = """
F.dropout({a}, 0.3)
F.dropout({a}, self.ratio)
F.gaussian({a}, {b} * 0.01)
F.zoneout({a}, {b}, 0.4)
{a} * self.alpha
{a} * {a}.array
{a} * ({b}.array > 0)
F.where({b}.array > 0, {a}, {b})
{a} * (1 - ({t} != 0).astype({a}.dtype))[:, None]
{a} + np.arange({a}.shape[-1]).astype({a}.dtype) * 0.1
{a} * np.random.uniform(0.5, 1.5, {a}.shape).astype({a}.dtype)
{a} if self.state is None else {a} * F.tanh(self.state)
chainer.Variable({a}.array) * {b}
""".strip().splitlines()

STATEMENTS = """
self.state = F.mean({a})
self.kept = {a}
chainer.report({{'mean': F.mean({a})}}, self)
""".strip().splitlines()

TEMPLATES = [*ELEMENTWISE, *SHAPES, *REDUCTIONS, *LINKS, *FUNCTIONS, *AROUND, *STATEMENTS]

# Discovered by accident: an array in the place of a number, a window or a dtype; labels in that of
# a permutation, of which Chainer's backward makes an inverse with places that nobody has written.
NOT_DRAWN = """
F.average_pooling_2d({a}, {t})
F.average_pooling_nd({a}, {t})
F.max_pooling_2d({a}, {t})
F.max_pooling_nd({a}, {t})
F.unpooling_2d({a}, {t})
F.unpooling_nd({a}, {t})
F.im2col({a}, {t})
F.shift({a}, {t})
F.cast({a}, {b})
F.softmax_cross_entropy({a}, {b})
F.softmax_cross_entropy({a}, {b}, {c})
F.gumbel_softmax({a}, {b})
F.permutate({a}, {t})
""".strip().splitlines()

CALLS = (
    "F.{name}({{a}})",
    "F.{name}({{a}}, {{b}})",
    "F.{name}({{a}}, {{b}}, {{c}})",
    "F.{name}({{a}}, {{t}})",
    "F.{name}({{a}}, 2)",
)
PROBES = [(3, 4), (2, 2, 4), (2, 4, 4, 4)]


def is_statement(template: str) -> bool:
    """Whether a template makes no result of its own."""
    return template in STATEMENTS


@functools.cache
def discovered() -> list[str]:
    """Templates of the functions of Chainer that take one to three float arrays.

    Each was called, forward and backward, on arrays of two to four axes.
    """
    found = []
    for name in sorted(vars(F)):
        f = getattr(F, name)
        if name.startswith("_") or not callable(f):
            continue
        for call in CALLS:
            template = call.format(name=name)
            if template in NOT_DRAWN:
                continue
            if any(works(template, shape) for shape in PROBES):
                found.append(template)
    return found


def works(template: str, shape: tuple) -> bool:
    """Whether a template runs forward and backward on random arrays of one shape."""
    rng = np.random.RandomState(0)
    xs = [chainer.Variable(rng.uniform(0.2, 0.9, shape)) for _ in range(3)]
    t = rng.randint(0, 3, shape[0]).astype("i")
    source = template.format(a="xs[0]", b="xs[1]", c="xs[2]", t="t", axis=1)
    try:
        with quiet():
            result = eval(source, {"F": F, "np": np, "chainer": chainer, "xs": xs, "t": t})
            ys = [y for y in flat(result) if y.dtype.kind == "f" and y.requires_grad]
            if ys:
                for y in ys:
                    y.grad = np.ones_like(y.array)
                chainer.backward(ys)
    except Exception:
        return False
    return bool(ys) and all(np.isfinite(y.array).all() for y in ys)


def flat(result) -> list:
    """The Variables of a result: one, or a tuple or list of them."""
    things = list(result) if isinstance(result, (list, tuple)) else [result]
    if not all(isinstance(y, chainer.Variable) for y in things):
        raise TypeError(type(result).__name__)
    return things


@contextlib.contextmanager
def quiet():
    """Without warnings, output and NumPy's floating-point errors."""
    with warnings.catch_warnings(), np.errstate(all="ignore"), contextlib.ExitStack() as stack:
        warnings.simplefilter("ignore")
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        yield


@functools.cache
def gradients() -> list[str]:
    """Gradients that a call takes itself: their nodes are functions like others."""
    of_a = [t for t in discovered() if "{b}" not in t]
    templates = [
        f"chainer.grad([F.sum(F.tanh({t}))], [{{a}}], enable_double_backprop=True)[0]"
        for t in (*ELEMENTWISE, *SHAPES, *REDUCTIONS, *LINKS[:8], *of_a)
    ]
    weights = [
        f"chainer.grad([F.sum(F.tanh(F.{name}({{a}}, {{b}})))], [{{b}}], "
        "enable_double_backprop=True)[0]"
        for name in ("convolution_2d", "convolution_nd")
    ]
    of_link = templates[0].replace("{a}", "self.b({a})", 1).replace("{a}]", "self.b.W]")
    return [*templates, *weights, of_link]


@functools.cache
def all_templates() -> list[str]:
    """Those above, then the discovered ones, then gradients."""
    return list(itertools.chain(TEMPLATES, discovered(), gradients()))
