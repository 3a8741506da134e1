"""Arrays of CuPy in user code, outside of Variables and functions: followed, and replayed."""

import chainer
import chainer.functions as F
import chainer.links as L
import cupy
import pytest
from chainer.backends import cuda

from .programs import assert_replayed, normal, programs, seen, whole

CALLS = 5
program, PROGRAMS = programs()
TABLE = None


@program(3)
def functions_of_cupy(way):
    @way
    def call(x, y):
        z = (x * 2 + y - 1)[1:, ::2]
        w = cupy.concatenate([z, z * 0.5], axis=0)
        w = cupy.where(w > 0, w, -w)
        parts = (w.max(axis=1), w.argmax(axis=1)), w.sum(), w.T, w.reshape(-1), w.ravel()[0]
        more = -w, abs(w), 3 / w, w**2, w.astype("d"), x.dot(y.T), cupy.exp(w), cupy.floor(w)
        return F.relu(w - w.mean(axis=0, keepdims=True)), parts, more

    return [seen(call(normal(4, 6, seed=k), normal(4, 6, seed=k + 50))) for k in range(CALLS)]


@program(8)
def more_functions_of_cupy(way):
    @way
    def call(x, y):
        joined = cupy.stack([x, y]).mean(axis=(0, 2)), cupy.vstack([x, y]), cupy.split(x, 3, axis=1)
        products = x @ y.T, cupy.einsum("ij,kj->ik", x, y), cupy.outer(x[0], y[0])
        ordered = cupy.sort(x, axis=1), cupy.argsort(y, axis=1), cupy.flip(x, 0), cupy.roll(x, 1)
        views = cupy.expand_dims(x, 1), cupy.moveaxis(x, 0, 1), x.view("i4"), cupy.diag(x[:, :2])
        numbers = cupy.linalg.norm(x), x.var(), cupy.isnan(x).any(), cupy.fft.fft(x).real
        rounded = (
            cupy.sign(x),
            cupy.floor_divide(x, 0.3),
            x % 0.7,
            x.astype(int),
            cupy.clip(x, 0, 1),
        )
        return joined, products, ordered, views, numbers, rounded, x.cumsum(axis=1), *x

    return [seen(call(normal(2, 6, seed=k), normal(2, 6, seed=k + 40))) for k in range(CALLS)]


@program()
def masks(way):
    @way
    def call(x, lengths):
        mask = cupy.arange(x.shape[1])[None] < lengths[:, None]
        y = F.softmax(cupy.where(mask, x, cupy.array(-1e9, "f")), axis=1)
        counts = mask.astype("f").sum(axis=1), (mask & (x > 0)).sum()
        return F.where(mask, y, cupy.zeros_like(x)), ~mask, counts, cupy.eye(6, dtype="f")[lengths]

    return [seen(call(normal(3, 5, seed=k), whole(5, 3, seed=k) + 1)) for k in range(CALLS)]


@program(3)
def what_a_call_feeds_back(way):
    def forward(self, t):
        found, h = [], self.words(t)
        for _ in range(3):
            y = self.out(h)
            t = y.array.argmax(axis=1).astype("i")
            found.append(t)
            h = F.tanh(h + self.words(t))
        return cupy.stack(found), y

    parts = {"words": lambda: L.EmbedID(6, 4), "out": lambda: L.Linear(4, 6)}
    model = way.model(forward, **parts)
    return [seen(model(whole(6, 3, seed=k))) for k in range(CALLS)]


@program()
def views_of_arguments(way):
    @way
    def call(x):
        return x[1:], x.T, F.reshape(x, (-1,)), x

    found = []
    for k in range(CALLS):
        x = normal(3, 4, seed=k)
        *views, same = call(x)
        x[1, 0] = 99
        found.append((seen(views), same is x))
        views[0][...] = 5
        found.append(seen(x))
    return found


@program()
def arrays_made_from_nothing(way):
    @way
    def call(x):
        y = x + cupy.zeros((2, 3), "f") + cupy.ones_like(x) * cupy.arange(3, dtype="f")
        y = y * cupy.asarray([1.0, 2.0, 3.0], "f")
        return F.matmul(y, cupy.eye(3, dtype="f")), cupy.full((2, 2), 3.0, "f")

    return [seen(call(normal(2, 3, seed=k))) for k in range(CALLS)]


@program()
def arrays_of_chainer(way):
    def forward(self, x):
        with chainer.using_device(self.device):
            zeros = self.xp.zeros(x.shape, x.dtype)
        assert chainer.backend.get_array_module(x) is cupy
        assert isinstance(x.array, cuda.ndarray)
        return self.layer(x) + chainer.Variable(zeros)

    model = way.model(forward, layer=lambda: L.Linear(3, 3))
    return [seen(model(chainer.Variable(normal(2, 3, seed=k)))) for k in range(CALLS)]


@program(1)
def ways_by_values(way):
    @way
    def call(x):
        if x.sum() > 0:
            return F.relu(x)
        if float(F.max(x).array) > 0.7 and int(x[0].argmax()) > 0:
            return F.sigmoid(x)
        return F.tanh(x)

    return [seen(call(normal(2, 3, seed=k))) for k in range(16)]


@program()
def numbers_that_leave(way):
    @way
    def call(x):
        y = F.sum(x)
        return float(y.array), y.array.item() * 2 + 1, y

    return [seen(call(normal(2, 3, seed=k))) for k in range(CALLS)]


@program(2)
def draws_of_the_call(way):
    @way
    def call(x):
        noise = cupy.random.normal(0, 1, x.shape).astype("f")
        return x + noise * 0.1 + cupy.random.uniform(-1, 1, x.shape, dtype="f")

    cupy.random.seed(7)
    return [seen(call(normal(5, 3, seed=k))) for k in range(CALLS)]


@program()
def a_table_outside(way):
    global TABLE
    TABLE = normal(7, 3, seed=3)

    @way
    def call(i):
        return F.tanh(TABLE[i])

    found = [seen(call(whole(7, 4, seed=k))) for k in range(CALLS)]
    TABLE[0] = 5.0
    return found + [seen(call(whole(7, 4, seed=k))) for k in range(CALLS)]


@program()
def parts_of_a_table_outside(way):
    table = normal(4, 6, seed=3)
    parts = [table.T, table[:, ::2], table[::-1, ::-3], cupy.broadcast_to(table[0], (3, 6))]

    @way
    def call(x):
        return [F.sum(x) * w + F.exp(w) for w in parts]

    found = []
    for k in range(CALLS):
        found.append(seen(call(normal(2, 3, seed=k))))
        table += k
    return found


@pytest.mark.parametrize(("program", "python"), PROGRAMS)
def test_program(program, python):
    assert_replayed(program, python)
