"""The networks that are more than a perceptron, as functions of a dict of arrays.

Images and kernels are NHWC and HWIO, which XLA's convolutions on CPU want; running statistics of
batch normalization are left out: the loss does not need them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from benchmarks.cases import lstm_ptb, resnet50, transformer, vgg_cifar

Params = Mapping[str, Any]


def placed(weights: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return the weights as JAX arrays, kernels of convolutions as HWIO."""
    return {
        path: jnp.array(w.transpose(2, 3, 1, 0) if w.ndim == 4 else w)
        for path, w in weights.items()
    }


def as_input(x: np.ndarray) -> np.ndarray:
    """Return a batch or sample with its channels last, if it has channels."""
    return np.moveaxis(x, -3, -1) if x.dtype == np.float32 else x


def conv(p: Params, path: str, x, stride: int = 1, pad: int = 0):
    """Convolution, with a bias where there is one."""
    y = lax.conv_general_dilated(
        x,
        p[f"{path}/W"],
        (stride, stride),
        ((pad, pad), (pad, pad)),
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )
    return y + p[f"{path}/b"] if f"{path}/b" in p else y


def linear(p: Params, path: str, x):
    """x W' + b, with a bias where there is one."""
    y = x @ p[f"{path}/W"].T
    return y + p[f"{path}/b"] if f"{path}/b" in p else y


def max_pool(x, ksize: int, stride: int, pad: int = 0):
    """Max pooling; `pad` is added at the end."""
    padding = ((0, 0), (0, pad), (0, pad), (0, 0))
    return lax.reduce_window(
        x, -jnp.inf, lax.max, (1, ksize, ksize, 1), (1, stride, stride, 1), padding
    )


def flat(x):
    """One row per image, channels first as in the weights."""
    return x.transpose(0, 3, 1, 2).reshape(len(x), -1)


def batch_norm(p: Params, path: str, x):
    """Normalize over all axes but the last."""
    axes = tuple(range(x.ndim - 1))
    mean = x.mean(axes)
    var = jnp.square(x - mean).mean(axes)
    return (x - mean) * (lax.rsqrt(var + 2e-5) * p[f"{path}/gamma"]) + p[f"{path}/beta"]


def layer_norm(p: Params, path: str, x):
    """Normalize over the last axis."""
    mean = x.mean(-1, keepdims=True)
    var = jnp.square(x - mean).mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(var + 1e-6) * p[f"{path}/gamma"] + p[f"{path}/beta"]


def lenet(p: Params, x):
    """Two convolutions with max pooling, two linear layers."""
    h = max_pool(jax.nn.relu(conv(p, "conv1", x)), 2, 2)
    h = max_pool(jax.nn.relu(conv(p, "conv2", h)), 2, 2)
    return linear(p, "fc2", jax.nn.relu(linear(p, "fc1", flat(h))))


def vgg(p: Params, x):
    """VGG16 with batch normalization."""
    for stage, (_, repeat) in enumerate(vgg_cifar.PLAN):
        for i in range(repeat):
            block = f"blocks/{stage}/{i}"
            x = jax.nn.relu(batch_norm(p, f"{block}/bn", conv(p, f"{block}/conv", x, pad=1)))
        x = max_pool(x, 2, 2)
    h = jax.nn.relu(batch_norm(p, "bn_fc1", linear(p, "fc1", flat(x))))
    return linear(p, "fc2", h)


def _bottleneck(p: Params, path: str, x, stride: int):
    def unit(i, x, stride=1, pad=0):
        return batch_norm(p, f"{path}/bn{i}", conv(p, f"{path}/conv{i}", x, stride, pad))

    h = jax.nn.relu(unit(1, x, stride))
    h = unit(3, jax.nn.relu(unit(2, h, pad=1)))
    return jax.nn.relu(h + (unit(4, x, stride) if f"{path}/conv4/W" in p else x))


def resnet(p: Params, x):
    """ResNet-50."""
    x = jax.nn.relu(batch_norm(p, "bn1", conv(p, "conv1", x, 2, 3)))
    x = max_pool(x, 3, 2, 1)
    for name, n, _, _, _, stride in resnet50.STAGES:
        for block in resnet50.blocks(n):
            x = _bottleneck(p, f"{name}/{block}", x, stride if block == "a" else 1)
    return linear(p, "fc6", x.mean((1, 2)))


def lstm(p: Params, x):
    """Two layers, one scan each; the products of the inputs are taken at once."""
    h = p["embed/W"][x]
    for name in ("l1", "l2"):
        h = _lstm_layer(linear(p, f"{name}/upward", h), p[f"{name}/lateral/W"].T)
    return linear(p, "out", h.reshape(-1, lstm_ptb.N_UNITS))


def _lstm_layer(gates, lateral):
    n = gates.shape[-1] // 4

    def step(state, gates):
        c, h = state
        a, i, f, o = jnp.moveaxis((gates + h @ lateral).reshape(-1, n, 4), 2, 0)
        c = jnp.tanh(a) * jax.nn.sigmoid(i) + jax.nn.sigmoid(f) * c
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (c, h), h

    empty = jnp.zeros((gates.shape[1], n), gates.dtype)
    return lax.scan(step, (empty, empty), gates)[1]


def encoder(p: Params, x):
    """Embedding, positions, blocks, one class per word."""
    h = p["embed/W"][x] + p["position"]
    for i in range(transformer.N_LAYERS):
        path = f"blocks/{i}"
        h = h + linear(p, f"{path}/out", _attention(p, path, layer_norm(p, f"{path}/ln1", h)))
        ff = jax.nn.relu(linear(p, f"{path}/ff1", layer_norm(p, f"{path}/ln2", h)))
        h = h + linear(p, f"{path}/ff2", ff)
    return linear(p, "out", layer_norm(p, "ln", h)).reshape(-1, transformer.N_WORDS)


def _attention(p: Params, path: str, h):
    batch, length, n = h.shape
    heads = transformer.N_HEADS
    h = linear(p, f"{path}/qkv", h).reshape(batch, length, 3, heads, n // heads)
    q, k, v = h.transpose(2, 0, 3, 1, 4)
    weights = jax.nn.softmax(q @ k.swapaxes(2, 3) * (n // heads) ** -0.5)
    return (weights @ v).transpose(0, 2, 1, 3).reshape(batch, length, n)


def dqn(p: Params, x):
    """Action values of frames."""
    h = jax.nn.relu(conv(p, "conv1", x, 4))
    h = jax.nn.relu(conv(p, "conv2", h, 2))
    h = jax.nn.relu(conv(p, "conv3", h))
    return linear(p, "fc2", jax.nn.relu(linear(p, "fc1", flat(h))))


NETWORKS = {
    "lenet": lenet,
    "vgg_cifar": vgg,
    "resnet50": resnet,
    "lstm_ptb": lstm,
    "transformer": encoder,
    "dqn": dqn,
}
