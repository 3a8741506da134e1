"""What whole steps are launched as on a GPU: kernels, in order, with so many blocks each."""

import re
import textwrap

import sdbr

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np
import pytest

from tests.harness import device
from tests.harness.launched import nobody_runs

#: Lines that end with a plus go on in the next.
PLANS = {
    ("small perceptron", False): """
        linear_bias_f4: 1
        dropout_f4: 1
        linear_bias_f4: 1
        cross_entropy_f4: 1
        gemm_f4: 1
        gemm_sums_f4: 1
        multiply_contiguous_f4: 1
        relu_grad_contiguous_f4: 1
        gemm_sums_f4: 1
        adam_together_f4: 4
    """,
    ("small perceptron", True): """
        linear_bias_f4 +
            dropout_f4 +
            linear_bias_f4 +
            cross_entropy_f4 +
            gemm_f4 +
            gemm_sums_f4 +
            multiply_contiguous_f4: 1
        relu_grad_contiguous_f4 +
            gemm_sums_f4 +
            adam_together_f4: 1
    """,
    ("large perceptron", False): """
        linear_bias_f4: 64
        dropout_f4: 1000
        linear_bias_f4: 4
        cross_entropy_f4: 8
        gemm_f4: 64
        gemm_sums_f4: 16
        fused_f4: 250
        gemm_sums_f4: 208
        adam_together_f4: 778
    """,
    ("large perceptron", True): """
        linear_bias_f4: 64
        dropout_f4: 1000
        linear_bias_f4: 4
        cross_entropy_f4: 8
        gemm_f4: 64
        gemm_sums_f4: 16
        fused_f4: 250
        gemm_sums_f4: 208
        adam_together_f4: 778
    """,
    ("recurrent network", False): """
        take_4: 1
        linear_bias_f4: 2
        lstm_f4: 1
        take_4: 1
        linear_bias_f4: 2
        linear_f4: 2
        add_contiguous_f4: 4
        lstm_f4: 1
        linear_bias_f4: 1
        cross_entropy_f4: 1
        gemm_f4: 1
        gemm_sums_f4: 1
        lstm_grad_f4: 1
        gemm_f4: 1
        gemm_f4: 2
        gemm_f4: 1
        gemm_sums_f4: 2
        zero_4: 7
        scatter_add_f4: 1
        lstm_grad_f4: 1
        gemm_f4: 1
        gemm_f4: 2
        sum_f4: 4
        zero_4: 7
        scatter_add_f4: 1
        add_contiguous_f4: 1
        add_contiguous_f4: 7
        adam_together_f4: 14
    """,
    ("recurrent network", True): """
        take_4 +
            linear_bias_f4 +
            lstm_f4 +
            take_4 +
            linear_bias_f4 +
            linear_f4 +
            add_contiguous_f4: 1
        lstm_f4 +
            linear_bias_f4 +
            cross_entropy_f4 +
            gemm_f4 +
            gemm_sums_f4 +
            lstm_grad_f4 +
            gemm_f4: 1
        gemm_f4 +
            gemm_f4 +
            gemm_sums_f4: 1
        zero_4: 7
        scatter_add_f4 +
            lstm_grad_f4 +
            gemm_f4 +
            gemm_f4 +
            sum_f4: 1
        zero_4: 7
        scatter_add_f4 +
            add_contiguous_f4: 1
        add_contiguous_f4: 7
        adam_together_f4: 14
    """,
}


class Perceptron(chainer.Chain):
    def __init__(self, n_in, n_hidden, n_out):
        super().__init__()
        with self.init_scope():
            self.hidden = L.Linear(n_in, n_hidden)
            self.out = L.Linear(n_hidden, n_out)

    def forward(self, x, t):
        h = F.dropout(F.relu(self.hidden(x)))
        return F.softmax_cross_entropy(self.out(h), t)


class Recurrent(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.words = L.EmbedID(50, 32)
            self.cell = L.StatelessLSTM(32, 32)
            self.out = L.Linear(32, 50)

    def forward(self, x, t):
        c = h = None
        for k in range(2):
            c, h = self.cell(c, h, self.words(x[k]))
        return F.softmax_cross_entropy(self.out(h), t)


def name_of(launch):
    """Of its kernel; fused ones are named by a digest of their source."""
    return re.sub(r"fused_\w{16}", "fused", launch.kernel)


def plan_of(executable):
    """A line for each kernel: what it consists of, and its blocks."""
    (calls,) = executable.calls
    return [
        f"{' + '.join(name_of(launch) for _, launch in call.links)}: {call.kernel.grid}"
        for call in calls
    ]


def step_of(model, batch, chained):
    optimizer = sdbr.static_optimizer(chainer.optimizers.Adam()).setup(model)
    with device.simulated(chained=chained) as made:
        static = sdbr.static_graph(model, backend=device.NAME)
        for _ in range(3):
            optimizer.update(static, *batch)
    return made[-1]


NETWORKS = {
    "small perceptron": (lambda: Perceptron(8, 16, 4), ((16, 8), 4)),
    "large perceptron": (lambda: Perceptron(784, 1000, 10), ((256, 784), 10)),
    "recurrent network": (Recurrent, None),
}


def batch_of(shapes):
    if shapes is None:
        return np.arange(16, dtype="i").reshape(2, 8), np.arange(8, dtype="i")
    shape, n = shapes
    return np.ones(shape, "f"), (np.arange(shape[0]) % n).astype("i")


@pytest.mark.parametrize("chained", [False, True])
@pytest.mark.parametrize("name", NETWORKS)
def test_plans(name, chained):
    make, shapes = NETWORKS[name]
    with nobody_runs():
        executable = step_of(make(), batch_of(shapes), chained)
    assert executable.program.name == "step"
    want = re.sub(r" \+\n *", " + ", textwrap.dedent(PLANS[name, chained])).split("\n")[1:-1]
    assert plan_of(executable) == [line.strip() for line in want]
