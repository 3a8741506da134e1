"""chainer.functions.rnn in float16, rounded step by step as Chainer's arrays are on the way."""

from __future__ import annotations

from sdbr.functions.half import in_the_place_of
from sdbr.functions.recurrent import LSTM, gradient_of_rest
from sdbr.functions.registry import FunctionRow, Node
from sdbr.program.buffers import Row
from sdbr.program.builder import Builder


class _Steps:
    """Arithmetic that rounds what it gives."""

    def __init__(self, b: Builder, node: Node) -> None:
        self.b, self.node = b, node

    def __call__(self, name: str, *xs: Row, floats: tuple[float, ...] = ()) -> Row:
        return self.node.rounded(self.b, self.b.elementwise(name, *xs, floats=floats))

    def product(self, x: Row, *others: Row) -> Row:
        """x * y * z, from the left."""
        for y in others:
            x = self("multiply", x, y)
        return x

    def sigmoid(self, x: Row) -> Row:
        """tanh(x / 2) / 2 + 1/2."""
        x = self("tanh", self("mul_constant", x, floats=(0.5,)))
        return self("add_constant", self("mul_constant", x, floats=(0.5,)), floats=(0.5,))

    def of_sigmoid(self, y: Row) -> Row:
        """y * (1 - y)."""
        return self("multiply", y, self("rsub_constant", y, floats=(1.0,)))

    def of_tanh(self, y: Row) -> Row:
        """1 - y * y."""
        return self("rsub_constant", self("square", y), floats=(1.0,))

    def gates(self, x: Row) -> list[Row]:
        """tanh(a), and the sigmoids of i, f and o."""
        a, i, f, o = (self.b.copy(part) for part in _parts(self.b, x))
        return [self("tanh", a), *[self.sigmoid(part) for part in (i, f, o)]]


def _parts(b: Builder, x: Row) -> list[Row]:
    """The four parts of x[batch, 4 * units, ...], which lie side by side, as views."""
    x = b.reshape(x, (x.shape[0], x.shape[1] // 4, 4, *x.shape[2:]))
    return [b.slice(x, (slice(None), slice(None), k)) for k in range(4)]


@in_the_place_of(LSTM)
class HalfLSTM(FunctionRow):
    """c = r(a * i) + r(f * c), h = o * r(tanh(c)); cells beyond the batch of x stay."""

    def forward(b, node, xs):
        r, (c_prev, x) = _Steps(b, node), xs
        n = x.shape[0]
        a, i, f, o = r.gates(x)
        kept = r.product(f, b.slice(c_prev, slice(n)))
        c_next = r("add", r.product(a, i), kept)
        c = b.new(c_prev.shape, x.dtype)
        b.copy_to(c_next, b.slice(c, slice(n)))
        if n < c.shape[0]:
            b.copy_to(b.slice(c_prev, slice(n, None)), b.slice(c, slice(n, None)))
        return [c, r.product(o, r("tanh", c_next))]

    def backward(b, node, xs, ys, gys, wanted):
        r, (c_prev, x), (gc, gh) = _Steps(b, node), xs, gys
        n = x.shape[0]
        a, i, f, o = r.gates(x)
        co = r("tanh", b.slice(ys[0], slice(n)))
        total = None if gc is None else b.slice(gc, slice(n))
        go = b.fill(co.shape, x.dtype, 0.0)
        if gh is not None:
            through = r.product(gh, o, r.of_tanh(co))
            total = through if total is None else r("add", through, total)
            go = r.product(gh, co, r.of_sigmoid(o))
        gradients = [
            r.product(total, i, r.of_tanh(a)),
            r.product(total, a, r.of_sigmoid(i)),
            r.product(total, b.slice(c_prev, slice(n)), r.of_sigmoid(f)),
            go,
        ]
        gx, gc_prev = b.new(x.shape, x.dtype), b.new(c_prev.shape, x.dtype)
        for g, part in zip(gradients, _parts(b, gx), strict=True):
            b.copy_to(g, part)
        b.copy_to(r.product(total, f), b.slice(gc_prev, slice(n)))
        gradient_of_rest(b, gc, gc_prev, n)
        return [gc_prev, gx if 1 in wanted else None]
