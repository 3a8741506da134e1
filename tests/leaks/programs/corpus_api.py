"""Corners of Chainer's own interface, in forward and around it."""

import copy
import pickle

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np
from chainer import distributions as D

from tests.leaks.programs._kit import (
    Net,
    Normed,
    Recurrent,
    forward,
    images,
    labelled,
    table,
    variables,
)

N = np.newaxis
WEIGHTS = np.array([1, 2, 3], "f")


def _inner(x, f):
    """F of a Variable that wants a gradient, inside the call."""
    v = chainer.Variable(x)
    return v, f(v)


def _grad(self, x, **options):
    v, y = _inner(x, self.net)
    (g,) = chainer.grad([F.sum(y * y)], [v], **options)
    return g


def _jacobian(self, x):
    v, y = _inner(x, self.net)
    return F.stack([chainer.grad([F.sum(y[:, k])], [v])[0] for k in range(3)])


def _hessian_diagonal(self, x):
    v, y = _inner(x, self.net)
    (g,) = chainer.grad([F.sum(y**2)], [v], enable_double_backprop=True)
    return chainer.grad([F.sum(g[:, 0])], [v])[0]


def _grad_outputs(self, x):
    v, y = _inner(x, self.net)
    return chainer.grad([y], [v], [chainer.Variable((x[:, :3] > 0).astype("f"))])[0]


def _grad_of_parameters(self, x):
    y = F.sum(self.net(x) ** 2)
    gs = chainer.grad([y], list(self.params()))
    return sum(F.sum(g**2) for g in gs)


def _grad_set_inside(self, x):
    v = chainer.Variable(x)
    y = F.sum(self.net(v) ** 2)
    y.backward()
    return self.net(x + v.grad)


def _backward_inside(self, x):
    y = F.sum(self.net(x) ** 2)
    self.cleargrads()
    y.backward()
    return float(y.array)


def _unchained(self, x):
    h = self.l1(x)
    h.unchain()
    return self.l2(h)


def _unchain_backward(self, x):
    h = F.tanh(self.l1(x))
    h.unchain_backward()
    return self.l2(h)


def _detached_copy(self, x):
    h = self.l1(x)
    return self.l2(h + chainer.Variable(h.array, requires_grad=False))


def _as_variable(self, x):
    return self.net(chainer.as_variable(x) * chainer.as_variable(np.full(4, 2, "f")))


def _no_backprop_part(self, x):
    with chainer.no_backprop_mode():
        h = F.tanh(self.l1(x))
    return self.l2(h)


def _force_backprop(self, x):
    with chainer.no_backprop_mode():
        h = self.l1(x)
        with chainer.force_backprop_mode():
            return self.l2(h)


def _config_inside(self, x):
    with chainer.using_config("train", not chainer.config.train):
        return self.l2(F.dropout(self.l1(x), 0.5))


def _config_set_inside(self, x):
    chainer.config.corpus_seen = len(x)
    return self.net(x)


def _backprop_flag(self, x):
    return self.net(x) * (2 if chainer.config.enable_backprop else 3)


def _type_check_off(self, x):
    with chainer.using_config("type_check", False):
        return self.net(x)


def _keep_graph(self, x):
    with chainer.using_config("keep_graph_on_report", True):
        chainer.report({"y": F.sum(self.net(x))})
    return self.net(x)


def _copy_variable(self, x):
    return copy.copy(self.l1(x)) * 2


def _deepcopy_variable_array(self, x):
    return self.l2(chainer.Variable(copy.deepcopy(self.l1(x).array)))


def _zerograd(self, x):
    h = self.l1(x)
    h.cleargrad()
    return self.l2(h)


def _name(self, x):
    h = self.l1(x)
    h.name = "hidden"
    return self.l2(h) * len(h.name)


def _reshape_shape(self, x):
    y = self.net(x)
    return y.reshape(y.shape[::-1]).T


def _addgrad(self, x):
    a, b = self.l1(x), self.l1(-x)
    return self.l2(a) if a.shape == b.shape else None


def _parameter_as_result(self, x):
    return self.l2.W, self.net(x)


def _argument_as_result(self, x):
    return x, self.net(x)


def _same_result_twice(self, x):
    y = self.net(x)
    return y, y


def _view_of_result(self, x):
    y = self.net(x)
    return y, y.array[0]


def _nested_result(self, x):
    y = self.net(x)
    return {"a": [y, (F.sum(y), None)], "b": {"n": len(x), "s": "text"}}


def _named_result(self, x):
    return {name: F.sum(p) for name, p in sorted(self.namedparams())}


def _generator_to_list(self, x):
    return [link(v) for link, v in zip((self.l1,), (x,), strict=True)]


def _set_result(self, x):
    return tuple(sorted({len(x), 3}))


table(
    globals(),
    forward,
    {
        f"inside{f.__name__}": f
        for f in (
            _grad,
            _jacobian,
            _hessian_diagonal,
            _grad_outputs,
            _grad_of_parameters,
            _grad_set_inside,
            _backward_inside,
            _unchained,
            _unchain_backward,
            _detached_copy,
            _as_variable,
            _no_backprop_part,
            _force_backprop,
            _config_inside,
            _config_set_inside,
            _backprop_flag,
            _type_check_off,
            _keep_graph,
            _copy_variable,
            _deepcopy_variable_array,
            _zerograd,
            _name,
            _reshape_shape,
            _addgrad,
            _parameter_as_result,
            _argument_as_result,
            _same_result_twice,
            _view_of_result,
            _nested_result,
            _named_result,
            _generator_to_list,
            _set_result,
        )
    },
)
p_inside_grad_double = forward(lambda self, x: _grad(self, x, enable_double_backprop=True))

table(
    globals(),
    forward,
    {
        "clip_by_attribute_none": lambda self, x: F.clip(self.net(x), -0.5, None),
        "maximum_python": lambda self, x: F.maximum(self.net(x), np.zeros((len(x), 3), "f")),
        "minimum_scalar_array": lambda self, x: F.minimum(
            self.net(x), np.full((len(x), 3), 0.1, "f")
        ),
        "where_broadcast": lambda self, x: F.where(
            x[:, :1] > 0, self.net(x), np.zeros((1, 3), "f")
        ),
        "scatter_add": lambda self, x: F.scatter_add(self.net(x), [0, 1], np.ones((2, 3), "f")),
        "permutate": lambda self, x: F.permutate(self.net(x), np.argsort(x[:, 0]).astype("i")),
        "permutate_inverse": lambda self, x: F.permutate(
            self.net(x), np.argsort(x[:, 0]).astype("i"), inv=True
        ),
        "embed_id_of_argmax": lambda self, x: F.embed_id(x.argmax(1).astype("i"), self.l1.W.T),
        "select_item_of_argmax": lambda self, x: F.select_item(
            self.net(x), x[:, :3].argmax(1).astype("i")
        ),
        "cumsum": lambda self, x: F.cumsum(self.net(x), axis=0),
        "cumprod": lambda self, x: F.cumprod(self.net(x), axis=1),
        "logsumexp": lambda self, x: F.logsumexp(self.net(x), axis=1),
        "average_weights": lambda self, x: F.average(self.net(x), axis=0, weights=np.abs(x[:, 0])),
        "bincount_like": lambda self, x: F.sum(self.net(x) * (x[:, :1] > 0), axis=0),
        "sort_by_get_item": lambda self, x: F.get_item(self.net(x), np.argsort(x[:, 0])),
        "split_axis_indices": lambda self, x: F.split_axis(self.net(x), [1, 2], axis=1),
        "split_axis_force_tuple": lambda self, x: F.split_axis(
            self.net(x), 1, axis=1, force_tuple=True
        ),
        "separate": lambda self, x: F.separate(self.net(x), axis=1),
        "repeat_counts": lambda self, x: F.repeat(self.net(x), (1, 2, 1), axis=1),
        "pad": lambda self, x: F.pad(self.net(x), ((0, 0), (1, 2)), "constant", constant_values=3),
        "rollaxis": lambda self, x: F.rollaxis(self.net(x)[N], 2),
        "fliplr": lambda self, x: F.fliplr(self.net(x)),
        "diagonal": lambda self, x: F.diagonal(F.matmul(self.net(x), self.net(x), transb=True)),
        "inv": lambda self, x: F.inv(F.matmul(self.net(x).T, self.net(x)) + np.eye(3, dtype="f")),
        "det": lambda self, x: F.det(F.matmul(self.net(x).T, self.net(x)) + np.eye(3, dtype="f")),
        "cholesky": lambda self, x: F.cholesky(
            F.matmul(self.net(x).T, self.net(x)) + np.eye(3, dtype="f")
        ),
        "einsum": lambda self, x: F.einsum("ij,kj->ik", self.net(x), self.l2(self.l1(x))),
        "tensordot": lambda self, x: F.tensordot(
            self.net(x), self.net(x), axes=1 if len(x) == 3 else 0
        ),
        "fmod": lambda self, x: F.fmod(self.net(x), np.full((len(x), 3), 0.3, "f")),
        "floor_ceil_fix": lambda self, x: (
            F.floor(self.net(x) * 3) + F.ceil(self.net(x)) + F.fix(self.net(x))
        ),
        "sign": lambda self, x: F.sign(self.net(x)) + self.net(x),
        "argmin": lambda self, x: F.argmin(self.net(x), axis=1).array,
        "cast_double": lambda self, x: F.cast(F.cast(self.net(x), "d") ** 2, "f"),
        "cast_half": lambda self, x: F.cast(F.cast(self.net(x), "e"), "f"),
        "normalize": lambda self, x: F.normalize(self.net(x)) * WEIGHTS,
        "swish_beta": lambda self, x: F.swish(self.net(x), np.ones(3, "f") * x[0, :3]),
        "prelu_weight": lambda self, x: F.prelu(self.net(x), np.abs(x[0, :3])),
        "maxout": lambda self, x: F.maxout(self.l1(x), 2),
        "layer_norm_arrays": lambda self, x: F.layer_normalization(self.net(x), x[0, :3], x[1, :3]),
        "fixed_bn": lambda self, x: F.fixed_batch_normalization(
            self.net(x),
            np.ones(3, "f"),
            np.zeros(3, "f"),
            x.mean(0)[:3],
            x.var(0)[:3] + np.float32(0.1),
        ),
        "bn_running_arrays": lambda self, x: _summed(
            F.linear(F.linear(x, self.l1.W), self.l2.W), x, self.rm, self.rv
        ),
        "huber_delta": lambda self, x: F.huber_loss(self.net(x), x[:, :3], delta=0.5, reduce="no"),
        "sigmoid_ce_mask": lambda self, x: F.sigmoid_cross_entropy(
            self.net(x), (x[:, :3] > 0).astype("i")
        ),
        "bernoulli_nll": lambda self, x: F.bernoulli_nll((x[:, :3] > 0).astype("f"), self.net(x)),
        "gaussian_nll": lambda self, x: F.gaussian_nll(x[:, :3], self.net(x), self.net(x) * 0.1),
        "hinge": lambda self, x: F.hinge(self.net(x), x[:, :3].argmax(1).astype("i")),
        "triplet": lambda self, x: F.triplet(self.net(x) ** 3, self.net(-x), self.net(x[::-1]) * 2),
        "decov": lambda self, x: F.decov(self.net(x) ** 3),
        "discriminative_margin": lambda self, x: F.absolute_error(self.net(x), x[:, :3]),
        "convert_double_grad": lambda self, x: F.squared_difference(
            self.net(x), self.l2(self.l1(x))
        ),
        "stack_of_argument": lambda self, x: F.stack([x, x * 2]) * F.sum(self.net(x)),
        "vstack_mixed": lambda self, x: F.vstack([self.net(x), x[:, :3]]),
        "hstack_mixed": lambda self, x: F.hstack([self.net(x), x]),
        "dstack": lambda self, x: F.dstack([self.net(x), self.net(-x)]),
        "broadcast_list": lambda self, x: F.broadcast(self.net(x), x[:, :1]),
        "scale_axis": lambda self, x: F.scale(self.net(x), x[0, :3], axis=1),
        "bias_axis": lambda self, x: F.bias(self.net(x), x[0, :3], axis=1),
        "linear_no_bias": lambda self, x: F.linear(x, self.l1.W),
        "bilinear": lambda self, x: F.bilinear(x, x, np.ones((4, 4, 2), "f")) * self.l2.b[0],
        "n_batch_axes": lambda self, x: self.l1(x[N], n_batch_axes=2),
        "sum_keepdims": lambda self, x: F.sum(self.net(x), axis=(0, 1), keepdims=True),
        "max_keepdims": lambda self, x: F.max(self.net(x), axis=0, keepdims=True),
        "prod": lambda self, x: F.prod(self.net(x), axis=1),
        "sparsemax": lambda self, x: (
            F.sparsemax(self.net(x)) if hasattr(F, "sparsemax") else self.net(x)
        ),
        "as_strided": lambda self, x: F.as_strided(self.net(x), (2, 3), (3, 1)),
        "accuracy_of_argmax": lambda self, x: F.accuracy(
            self.net(x), x[:, :3].argmax(1).astype("i")
        ),
        "classification_summary": lambda self, x: F.classification_summary(
            self.net(x), x[:, :3].argmax(1).astype("i"), label_num=3
        ),
        "normal_log_prob": lambda self, x: D.Normal(
            self.net(x), scale=np.ones((len(x), 3), "f")
        ).log_prob(x[:, :3]),
        "normal_entropy": lambda self, x: D.Normal(self.net(x), log_scale=self.net(x)).entropy,
        "categorical_log_prob": lambda self, x: D.Categorical(logit=self.net(x)).log_prob(
            x.argmax(1) % 3
        ),
        "multivariate": lambda self, x: D.MultivariateNormal(
            loc=self.net(x), scale_tril=np.broadcast_to(np.eye(3, dtype="f"), (len(x), 3, 3))
        ).log_prob(x[:, :3]),
        "independent": lambda self, x: D.Independent(
            D.Normal(self.net(x), scale=np.ones((len(x), 3), "f"))
        ).log_prob(x[:, :3]),
        "bernoulli_prob": lambda self, x: D.Bernoulli(logit=self.net(x)).prob(
            (x[:, :3] > 0).astype("f")
        ),
        "kl_normals": lambda self, x: chainer.kl_divergence(
            D.Normal(self.net(x), scale=np.ones((len(x), 3), "f")),
            D.Normal(x[:, :3], scale=np.ones((len(x), 3), "f")),
        ),
    },
    rm=lambda: np.zeros(3, "f"),
    rv=lambda: np.ones(3, "f"),
)


def _summed(y, x, mean, var):
    y = F.batch_normalization(y, np.ones(3, "f"), x[0, :3], running_mean=mean, running_var=var)
    return y * WEIGHTS * x[:, 1:]


class Picture(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.c = L.Convolution2D(1, 2, 3, pad=1)
            self.bn = L.BatchNormalization(2)
            self.d = L.Deconvolution2D(2, 1, 4, 2, 1)


table(
    globals(),
    forward,
    {
        "pool_indices": lambda self, x: F.max_pooling_2d(self.c(x), 2, return_indices=True),
        "unpool": lambda self, x: F.unpooling_2d(
            F.max_pooling_2d(self.c(x), 2), 2, cover_all=False
        ),
        "upsample": lambda self, x: _upsample(self.c(x)),
        "deconvolution": lambda self, x: self.d(F.relu(self.c(x)))[:, :, ::2, ::2],
        "spatial_transformer": lambda self, x: F.spatial_transformer_sampler(
            self.c(x),
            F.spatial_transformer_grid(np.tile(np.eye(2, 3, dtype="f"), (len(x), 1, 1)), (4, 4)),
        ),
        "grid_from_data": lambda self, x: F.spatial_transformer_sampler(
            self.c(x), np.clip(x[:, :, :2, :2], -1, 1).repeat(2, 1)
        ),
        "roi": lambda self, x: (
            F.roi_max_pooling_2d(self.c(x), *_rois(x), 1.0)
            if hasattr(F, "roi_max_pooling_2d")
            else self.c(x)
        ),
        "resize": lambda self, x: F.resize_images(self.c(x), (5, 6)),
        "im2col": lambda self, x: F.im2col(self.c(x), 2),
        "shift": lambda self, x: F.shift(F.concat([self.c(x)] * 5), 3),
        "depth2space": lambda self, x: F.depth2space(F.concat([self.c(x)] * 2), 2),
        "depthwise": lambda self, x: F.depthwise_convolution_2d(
            self.c(x), self.c.W.transpose(1, 0, 2, 3)
        ),
        "dilated": lambda self, x: F.dilated_convolution_2d(x, self.c.W, dilate=2),
        "local_response": lambda self, x: F.local_response_normalization(self.c(x)),
        "pyramid": lambda self, x: F.spatial_pyramid_pooling_2d(self.c(x), 2, pooling="max"),
        "group_norm_link_less": lambda self, x: (
            x * F.group_normalization(self.c(x), 1, np.ones(2, "f"), np.ones(2, "f"))
        ),
        "bn_axis": lambda self, x: (
            x
            * F.batch_normalization(
                F.convolution_2d(x, self.c.W, pad=1),
                np.ones((2, 8, 8), "f"),
                np.zeros((2, 8, 8), "f"),
                axis=0,
            )
        ),
        "crop_to_smallest": lambda self, x: self.c(x)[:, :, : x.shape[2] // 2, 1:-1],
        "global_pool_by_hand": lambda self, x: F.average_pooling_2d(self.c(x), self.c(x).shape[2:]),
        "gram": lambda self, x: (lambda h: F.matmul(h, h, transb=True) / h.size)(
            self.c(x).reshape(len(x), 2, -1)
        ),
        "total_variation": lambda self, x: (
            lambda h: F.sum(abs(h[:, :, 1:] ** 2 - h[:, :, :-1] + h[:, :, 1:]))
        )(self.c(x)),
        "squeeze_excite": lambda self, x: (
            lambda h: h * F.broadcast_to(F.sigmoid(F.mean(h, (2, 3), keepdims=True)), h.shape)
        )(self.c(x)),
        "mask_of_image": lambda self, x: self.c(x) * (x > 0),
        "nonmax_suppressed": lambda self, x: (
            lambda h: h * (h.array == h.array.max((2, 3), keepdims=True))
        )(self.c(x)),
    },
    net=Picture,
    inputs=images,
)


def _upsample(h):
    y, indices = F.max_pooling_2d(h, 2, return_indices=True)
    return F.upsampling_2d(y, indices, ksize=2)


def _rois(x):
    n = len(x)
    return np.tile(np.array([0, 0, 3, 3], "f"), (n, 1)), np.arange(n, dtype="i"), 2


def around(use, make=None, rounds=6, **options):
    """`use(run, model, i)` with a static model."""

    def program(run):
        model = (make or _plain)()
        model = run.static(model, **options)
        for i in range(rounds):
            use(run, model, i)

    return program


def _plain():
    class Model(Net):
        def forward(self, x):
            return self.net(x)

    return Model()


def around_programs():
    def kept_outputs(run, model, i):
        ys = [model(run.array(3, 4)) for _ in range(3)]
        model.cleargrads()
        F.sum(ys[0] * ys[2]).backward()
        ys[1].unchain_backward()
        run.see("ys", ys, model)

    def grad_outside(run, model, i):
        x = chainer.Variable(run.array(3, 4))
        y = model(x)
        run.see("g", chainer.grad([y], [x, model.l1.W], [chainer.Variable(run.array(3, 3))]))

    def grad_of_intermediate(run, model, i):
        h = chainer.Variable(run.array(3, 4)) * 2
        y = model(h)
        run.see("g", chainer.grad([F.sum(y)], [h]))

    def loss_scale(run, model, i):
        y = F.sum(model(run.array(3, 4)))
        model.cleargrads()
        y.backward(loss_scale=2.0 + i)
        run.see("model", model)

    def retain(run, model, i):
        x = chainer.Variable(run.array(3, 4))
        h = model(x)
        z = F.tanh(h)
        model.cleargrads()
        F.sum(z).backward(retain_grad=i % 2 == 0)
        run.see("grads", h.grad, z.grad, x.grad)

    def accumulate(run, model, i):
        if i % 3 == 0:
            model.cleargrads()
        F.sum(model(run.array(3, 4)) ** 2).backward()
        run.see("model", model)

    def zerograds(run, model, i):
        model.zerograds()
        F.sum(model(run.array(3, 4)) ** 2).backward()
        run.see("model", model)

    def backward_late(run, model, i):
        y = model(run.array(3, 4))
        model.l2.W.array[...] = run.array(3, 8)
        model.cleargrads()
        F.sum(y).backward()
        run.see("model", model)

    def input_changed_before_backward(run, model, i):
        x = run.array(3, 4)
        y = model(x)
        x[...] = 0
        model.cleargrads()
        F.sum(y).backward()
        run.see("model", y, model)

    def output_changed_before_backward(run, model, i):
        y = model(run.array(3, 4))
        y.array[...] = 1
        model.cleargrads()
        F.sum(y**2).backward()
        run.see("model", y, model)

    def output_fed_back(run, model, i):
        x = run.array(3, 4)
        for _ in range(3):
            x = F.pad(model(x), ((0, 0), (0, 1)), "constant")
        model.cleargrads()
        F.sum(x).backward()
        run.see("model", x, model)

    def output_array_fed_back(run, model, i):
        y = model(run.array(4, 4)).array
        run.see("y", model(y @ np.ones((3, 4), "f")))

    def same_input_both_kinds(run, model, i):
        x = run.array(3, 4)
        run.see("two", model(x), model(chainer.Variable(x)), model(chainer.Parameter(x)))

    def parameter_as_input(run, model, i):
        p = chainer.Parameter(run.array(3, 4))
        F.sum(model(p)).backward()
        run.see("p", p.grad)

    def requires_no_grad(run, model, i):
        x = chainer.Variable(run.array(3, 4), requires_grad=i % 2 == 0)
        y = model(x)
        y.backward() if y.size == 1 else F.sum(y).backward()
        run.see("x", x.grad, y.requires_grad)

    def creator(run, model, i):
        y = model(run.array(3, 4))
        run.see("creator", y.creator is not None, y.rank > 0, y.dtype.name, y.name)

    def variable_state(run, model, i):
        y = model(run.array(3, 4))
        run.see("flags", y.array.flags.c_contiguous, y.array.flags.writeable, y.array.flags.owndata)
        run.see("type", type(y.array).__name__, type(y).__name__)

    def no_backprop(run, model, i):
        with chainer.no_backprop_mode() if i % 2 else chainer.force_backprop_mode():
            y = model(run.array(3, 4))
        run.see("y", y, y.creator is None)

    def pickled_output(run, model, i):
        y = model(run.array(3, 4))
        run.see("y", pickle.loads(pickle.dumps(y)), copy.deepcopy(y), copy.copy(y))

    def output_as_key(run, model, i):
        ys = [model(run.array(2, 4)) for _ in range(2)]
        seen = {id(y): k for k, y in enumerate(ys)}
        run.see("keys", [seen[id(y)] for y in ys])

    def hooks(run, model, i):
        names = []

        class Hook(chainer.FunctionHook):
            name = "corpus"

            def forward_postprocess(self, function, in_data):
                names.append(function.label)

        with Hook() if i % 2 else chainer.using_config("train", True):
            model(run.array(3, 4))
        run.see("names", names)

    def link_hooks(run, model, i):
        names = []

        class Hook(chainer.LinkHook):
            name = "corpus"

            def forward_postprocess(self, args):
                names.append(args.link.name)

        if i % 2:
            with Hook():
                model(run.array(3, 4))
        run.see("names", names)

    def timer_hook(run, model, i):
        hook = chainer.function_hooks.TimerHook()
        with hook:
            model(run.array(3, 4))
        run.see("calls", [n for n, _ in hook.call_history])

    def debug_mode(run, model, i):
        x = run.array(3, 4)
        x[0, 0] = np.nan if i == 3 else 0
        with chainer.using_config("debug", True):
            try:
                run.see("y", model(x))
            except RuntimeError:
                run.see("y", "nan")

    def keyword(run, model, i):
        run.see("y", model(x=run.array(3, 4)))

    def call_forms(run, model, i):
        x = run.array(3, 4)
        run.see("y", model(x), model.forward(x), model.__call__(x), type(model).forward(model, x))

    def scalar_division(run, model, i):
        y = model(run.array(3, 4))
        y /= 2
        y = y[0] if i % 2 else y
        model.cleargrads()
        F.sum(y).backward()
        run.see("y", y, model)

    def second_derivative(run, model, i):
        x = chainer.Variable(run.array(3, 4))
        (g,) = chainer.grad([F.sum(model(x) ** 2)], [x], enable_double_backprop=True)
        model.cleargrads()
        F.sum(g**2).backward()
        run.see("model", g, model)

    def mixed_batches_one_backward(run, model, i):
        total = sum(F.sum(model(run.array(n, 4)) ** 2) for n in (1, 2, 3, 2))
        model.cleargrads()
        total.backward()
        run.see("model", total, model)

    def grads_moved(run, model, i):
        F.sum(model(run.array(3, 4))).backward()
        for p in model.params():
            p.grad = p.grad * 0.5 if i % 2 else None
        run.see("model", model)

    def grad_views(run, model, i):
        block = np.zeros((8, 4), "f")
        model.l1.W.grad = block
        F.sum(model(run.array(3, 4))).backward()
        run.see("block", block, model)

    def addgrads(run, model, i):
        other = copy.deepcopy(model)
        for m in (model, other):
            m.cleargrads()
            F.sum(m(run.array(3, 4))).backward()
        model.addgrads(other)
        run.see("model", model)

    def train_property(run, model, i):
        with chainer.using_config("train", i % 2 == 0):
            run.see("y", model(run.array(3, 4)))
        run.see("children", [c.name for c in model.children()], model.within_init_scope)

    return {k: v for k, v in locals().items() if callable(v)}


for _name, _use in around_programs().items():
    _options = {"enable_double_backprop": True} if _name == "second_derivative" else {}
    globals()[f"p_around_{_name}"] = around(_use, **_options)


@forward(inputs=variables)
def p_argument_gradient(self, x):
    return self.net(x) * x[:, :3]


@forward(net=Normed)
def p_test_twice_then_train(self, x):
    with chainer.using_config("train", False):
        a = self.bn(self.l1(x))
    return self.l2(a + self.bn(self.l1(x)))


@forward(net=Recurrent)
def p_lstm_without_reset(self, x):
    if self.lstm.h is not None and len(self.lstm.h) != len(x):
        self.lstm.reset_state()
    if self.lstm.h is not None:
        self.lstm.h.unchain_backward()
        self.lstm.c.unchain_backward()
    return self.out(self.lstm(x))


@forward(inputs=labelled)
def p_labels_through(self, x, t):
    return t, F.softmax_cross_entropy(self.net(x), t, normalize=False), t + 1


@forward(inputs=labelled)
def p_class_weight(self, x, t):
    return F.softmax_cross_entropy(self.net(x), t, class_weight=np.array([1, 2, 3], "f"))


@forward(inputs=labelled)
def p_class_weight_from_batch(self, x, t):
    w = (np.bincount(t, minlength=3) + 1).astype("f")
    return F.softmax_cross_entropy(self.net(x), t, class_weight=w)


@forward(inputs=labelled)
def p_soft_target(self, x, t):
    q = (np.eye(3, dtype="f")[t] + np.float32(0.1)) / np.float32(1.3)
    return F.softmax_cross_entropy(self.net(x), q, soft_target_loss="kl-divergence")


@forward(inputs=labelled)
def p_label_smoothed_list(self, x, t):
    return F.mean(
        F.stack([F.softmax_cross_entropy(self.net(x), (t + k).astype("i") % 3) for k in range(3)])
    )
