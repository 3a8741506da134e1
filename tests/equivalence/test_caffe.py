"""chainer.links.caffe: a network out of a Caffe model file."""

from __future__ import annotations

import warnings

import sdbr

import chainer
import chainer.functions as F
import numpy as np

from tests.tolerances import SUMS

from .harness import assert_near


def model_file(path) -> str:
    """A small convolutional network in Caffe's format, with random weights."""
    from chainer.links.caffe.protobuf3 import caffe_pb2

    rng = np.random.RandomState(0)
    net = caffe_pb2.NetParameter()

    def layer(name, kind, bottom, top, *shapes):
        new = net.layer.add(name=name, type=kind, bottom=[bottom], top=[top])
        for shape in shapes:
            blob = new.blobs.add()
            blob.shape.dim.extend(shape)
            blob.data.extend(rng.standard_normal(int(np.prod(shape))).tolist())
        return new

    convolution = layer("conv", "Convolution", "data", "conv", (4, 3, 3, 3), (4,))
    convolution.convolution_param.kernel_size.append(3)
    convolution.convolution_param.num_output = 4
    layer("relu", "ReLU", "conv", "conv")
    pooling = layer("pool", "Pooling", "conv", "pool").pooling_param
    pooling.kernel_size, pooling.stride = 2, 2
    product = layer("fc", "InnerProduct", "pool", "fc", (5, 16), (5,)).inner_product_param
    product.num_output, product.bias_term, product.axis = 5, True, 1
    layer("drop", "Dropout", "fc", "fc").dropout_param.dropout_ratio = 0.3
    layer("prob", "Softmax", "fc", "prob")
    path.write_bytes(net.SerializeToString())
    return str(path)


def test_caffe_function(tmp_path):
    from chainer.links.caffe import CaffeFunction

    path = model_file(tmp_path / "net.caffemodel")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plain, static = CaffeFunction(path), sdbr.static_graph(CaffeFunction(path))
    rng = np.random.default_rng(1)
    for train in (True, False):
        for i in range(4):
            x = rng.standard_normal((2, 3, 6, 6)).astype("f")
            found = []
            for net in (static, plain):
                np.random.seed(i)
                with chainer.using_config("train", train):
                    prob, fc = net(inputs={"data": chainer.Variable(x)}, outputs=["prob", "fc"])
                net.cleargrads()
                F.sum(prob * fc).backward()
                grads = {n: p.grad.copy() for n, p in net.namedparams()}
                kept = {name: y.array.copy() for name, y in net.variables.items()}
                found.append({**grads, **kept, "result": prob.array.copy()})
            got, want = found
            assert sorted(got) == sorted(want)
            for name in want:
                assert_near(got[name], want[name], SUMS, f"call {i}: {name}")
    statistics = static.schedule_manager.statistics
    assert (statistics.traces, statistics.replays) == (2, 6)
