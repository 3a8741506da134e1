"""softmax_cross_entropy with a distribution over the classes in the place of each label."""

from __future__ import annotations

from sdbr.functions.common import along
from sdbr.functions.integers import compare, where


def is_soft(node) -> bool:
    """Whether the second input of a SoftmaxCrossEntropy node is a distribution."""
    return node.in_dtypes[1].kind == "f"


def forward(b, node, xs):
    """Cross entropy or Kullback-Leibler divergence, per sample or their mean."""
    f, (x, t) = node.function, xs
    layout = along(x.shape, 1)
    log_y = b.new(x.shape, x.dtype)
    b.emit("log_softmax", [b.reshape(x, layout)], [b.reshape(log_y, layout)])
    node.state["log_y"] = log_y
    if f.soft_target_loss == "kl-divergence":
        log_t = b.elementwise("log", b.elementwise("add_constant", t, floats=(float(f.eps),)))
        terms = b.elementwise("multiply", t, b.elementwise("subtract", log_t, log_y))
        loss = b.reduce("sum", terms, (1,))
    else:
        loss = b.elementwise("negative", b.reduce("sum", b.elementwise("multiply", t, log_y), (1,)))
    if f.reduce != "mean":
        return [loss]
    total = b.reduce("sum", loss, range(loss.ndim))
    return [b.elementwise("mul_constant", total, floats=(_share(x),))]


def backward(b, node, xs, ys, gys, wanted):
    """softmax(x) - t, times the gradient; the label that is left out counts as a number here."""
    f, (x, t) = node.function, xs
    left_out = b.constant(t.dtype.type(f.ignore_label))
    t = where(b, compare(b, "eq", t, left_out), b.constant(t.dtype.type(0)), t)
    gx = b.elementwise("subtract", b.elementwise("exp", node.state["log_y"]), t)
    gloss = gys[0]
    if f.reduce == "mean":
        gloss = b.elementwise("mul_constant", gloss, floats=(_share(x),))
    else:
        gloss = b.reshape(gloss, (x.shape[0], 1, *x.shape[2:]))
    return [b.elementwise("multiply", gx, gloss), None]


def _share(x) -> float:
    """One over the number of samples, or of pixels."""
    return 1.0 / (x.size / x.shape[1]) if x.size else float("nan")
