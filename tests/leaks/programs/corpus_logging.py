"""Metrics, reports, logs, histories, counters, asserts, timing; running statistics by hand."""

import collections
import contextlib
import csv
import io
import json
import logging
import sys
import time
import traceback
import warnings

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np
from chainer import reporter

from tests.leaks.programs._kit import Net, forward, labelled, loss, table

LOG = []
OUT = io.StringIO()
STATS = {"min": np.inf, "max": -np.inf}
CONFUSION = np.zeros((3, 3), "i")
SUMMARY = chainer.reporter.Summary()
TIMES = []
logger = logging.getLogger("corpus")
logger.propagate = False


class Handler(logging.Handler):
    def emit(self, record):
        LOG.append(record.getMessage())


logger.addHandler(Handler())


class Meter:
    def __init__(self):
        self.total, self.n, self.values = 0.0, 0, []

    def add(self, v):
        self.total = self.total + v
        self.n += 1
        self.values.append(v)


METER = Meter()


def sce(self, x, t):
    self.y = self.net(x)
    return F.softmax_cross_entropy(self.y, t)


def report(**values):
    """A loss that reports; values are functions of (self, y, x, t)."""

    def body(self, x, t):
        value = sce(self, x, t)
        chainer.report({k: f(self, self.y, x, t) for k, f in values.items()}, self)
        return value

    return body


table(
    globals(),
    loss,
    {
        "report_accuracy": report(acc=lambda s, y, x, t: F.accuracy(y, t)),
        "report_accuracy_array": report(acc=lambda s, y, x, t: F.accuracy(y, t).array),
        "report_accuracy_float": report(acc=lambda s, y, x, t: float(F.accuracy(y, t).array)),
        "report_np_mean": report(m=lambda s, y, x, t: y.array.mean()),
        "report_np_error_rate": report(e=lambda s, y, x, t: (y.array.argmax(1) != t).mean()),
        "report_input_mean": report(m=lambda s, y, x, t: x.mean()),
        "report_label_count": report(n=lambda s, y, x, t: np.sum(t == 1)),
        "report_label_count_python": report(n=lambda s, y, x, t: sum(int(k) == 1 for k in t)),
        "report_batch_size": report(n=lambda s, y, x, t: len(x)),
        "report_constant": report(n=lambda s, y, x, t: 3.5),
        "report_weight_norm": report(w=lambda s, y, x, t: np.linalg.norm(s.l1.W.array)),
        "report_weight_norm_variable": report(w=lambda s, y, x, t: F.sqrt(F.sum(s.l1.W**2))),
        "report_weight_max_float": report(w=lambda s, y, x, t: float(abs(s.l1.W.array).max())),
        "report_grad_norm": report(
            g=lambda s, y, x, t: 0.0 if s.l2.b.grad is None else (s.l2.b.grad**2).sum()
        ),
        "report_variable_parameter": report(b=lambda s, y, x, t: s.l2.b[0]),
        "report_parameter_array": report(b=lambda s, y, x, t: s.l2.b.array[0]),
        "report_whole_array": report(b=lambda s, y, x, t: y.array),
        "report_r2": report(r=lambda s, y, x, t: F.r2_score(y[:, 0], x[:, 0])),
        "report_entropy": report(
            e=lambda s, y, x, t: -F.sum(F.softmax(y) * F.log_softmax(y)) / len(y)
        ),
        "report_max_probability": report(p=lambda s, y, x, t: F.max(F.softmax(y))),
        "report_precision": report(p=lambda s, y, x, t: F.precision(y, t, label_num=3)[0][1]),
        "report_f1_all": report(f=lambda s, y, x, t: F.mean(F.f1_score(y, t, label_num=3)[0])),
        "report_per_class": lambda self, x, t: _per_class(self, x, t),
        "report_per_class_present": lambda self, x, t: _per_class_present(self, x, t),
        "report_top2": report(
            k=lambda s, y, x, t: (np.argsort(-y.array, axis=1)[:, :2] == t[:, None]).any(1).mean()
        ),
        "report_iou": report(i=lambda s, y, x, t: _iou(y.array.argmax(1), t)),
        "report_child": lambda self, x, t: (_report_child(self, x), sce(self, x, t))[1],
        "report_no_observer": lambda self, x, t: (
            chainer.report({"loose": len(x)}),
            sce(self, x, t),
        )[1],
        "report_no_observer_value": lambda self, x, t: _loose(self, x, t),
        "report_twice": lambda self, x, t: _twice(self, x, t),
        "report_in_training_only": lambda self, x, t: _training_only(self, x, t),
        "report_every_second": lambda self, x, t: _every_second(self, x, t),
        "report_loop_names": lambda self, x, t: _names(self, x, t),
        "report_dict_variable": lambda self, x, t: _kept_dict(self, x, t),
        "report_inner_scope": lambda self, x, t: _scope(self, x, t),
        "report_inner_reporter": lambda self, x, t: _own_reporter(self, x, t),
        "report_string": report(name=lambda s, y, x, t: "text"),
        "report_none": report(nothing=lambda s, y, x, t: None),
        "report_nan_guarded": report(
            v=lambda s, y, x, t: np.nan_to_num(np.log(y.array.min()), nan=-1.0)
        ),
        "report_moving_average": lambda self, x, t: _moving(self, x, t),
        "report_best_so_far": lambda self, x, t: _best(self, x, t),
        "report_step_count": lambda self, x, t: _step(self, x, t),
        "report_learning_time": report(t=lambda s, y, x, t: float(time.time() > 0)),
        "report_std_of_hidden": lambda self, x, t: _hidden(self, x, t),
        "report_histogram": report(h=lambda s, y, x, t: np.histogram(y.array, 3)[0][1]),
        "report_correlation": report(
            c=lambda s, y, x, t: np.corrcoef(y.array[:, 0], x[:, 0])[0, 1].astype("f")
        ),
        "report_sparsity": report(z=lambda s, y, x, t: np.count_nonzero(y.array > 0) / y.size),
        "report_percent": report(z=lambda s, y, x, t: round(float((y.array > 0).mean()) * 100, 1)),
    },
    steps=0,
    best=0.0,
    average=0.0,
)


def _per_class(self, x, t):
    value = sce(self, x, t)
    for c in range(3):
        hit = (self.y.array.argmax(1) == t) & (t == c)
        chainer.report({f"class {c}": hit.sum() / np.maximum(1, (t == c).sum())}, self)
    return value


def _per_class_present(self, x, t):
    value = sce(self, x, t)
    for c in np.unique(t):
        chainer.report({f"class {c}": F.mean(self.y[t == c])}, self)
    return value


def _iou(a, b):
    matrix = np.bincount(3 * b + a, minlength=9).reshape(3, 3)
    return np.mean(np.diag(matrix) / np.maximum(1, matrix.sum(0) + matrix.sum(1) - np.diag(matrix)))


def _report_child(self, x):
    h = self.l1(x)
    chainer.report({"mean": F.mean(h)}, self.l1)


def _loose(self, x, t):
    value = sce(self, x, t)
    reporter.report({"loose": value * 2})
    return value


def _twice(self, x, t):
    value = sce(self, x, t)
    chainer.report({"v": value}, self)
    chainer.report({"v": value * 2}, self)
    return value


def _training_only(self, x, t):
    value = sce(self, x, t)
    if chainer.config.train:
        chainer.report({"train": value}, self)
    else:
        chainer.report({"test": value}, self)
    return value


def _every_second(self, x, t):
    self.steps += 1
    value = sce(self, x, t)
    if self.steps % 2:
        chainer.report({"odd": value}, self)
    return value


def _names(self, x, t):
    value = sce(self, x, t)
    for name, p in sorted(self.namedparams()):
        chainer.report({name: F.sum(p * p)}, self)
    return value


def _kept_dict(self, x, t):
    value = sce(self, x, t)
    self.parts = {"a": value, "b": F.accuracy(self.y, t)}
    chainer.report(self.parts, self)
    return value


def _scope(self, x, t):
    inner = {}
    with chainer.reporter.report_scope(inner):
        value = sce(self, x, t)
        chainer.report({"inner": value})
    chainer.report({"outer": inner["inner"] * 2}, self)
    return value


def _own_reporter(self, x, t):
    own, seen = chainer.Reporter(), {}
    own.add_observer("own", self)
    value = sce(self, x, t)
    with own.scope(seen):
        chainer.report({"v": value}, self)
    self.seen = seen["own/v"]
    return value


def _moving(self, x, t):
    value = sce(self, x, t)
    self.average = 0.9 * self.average + 0.1 * float(value.array)
    chainer.report({"average": self.average}, self)
    return value


def _best(self, x, t):
    value = sce(self, x, t)
    self.best = max(self.best, float(F.accuracy(self.y, t).array))
    chainer.report({"best": self.best}, self)
    return value


def _step(self, x, t):
    self.steps += 1
    chainer.report({"steps": self.steps}, self)
    return sce(self, x, t)


def _hidden(self, x, t):
    h = self.l1(x)
    chainer.report({"std": h.array.std(), "dead": (h.array < 0).all(axis=0).mean()}, self.l1)
    return F.softmax_cross_entropy(self.l2(F.relu(h)), t)


def _print(self, x, t):
    print("loss", len(x), file=OUT)
    return sce(self, x, t)


def _print_value(self, x, t):
    value = sce(self, x, t)
    print(f"loss {float(value.array):.3f}", file=OUT)
    return value


def _print_array(self, x, t):
    value = sce(self, x, t)
    print(self.y.array.shape, self.y.array.max(), file=OUT)
    return value


def _print_variable(self, x, t):
    value = sce(self, x, t)
    print(value, file=OUT)
    return value


def _write(self, x, t):
    OUT.write(f"{len(x)},")
    return sce(self, x, t)


def _csv(self, x, t):
    csv.writer(OUT).writerow([len(x), *t])
    return sce(self, x, t)


def _json(self, x, t):
    value = sce(self, x, t)
    LOG.append(json.dumps({"loss": round(float(value.array), 2)}))
    return value


def _logged(self, x, t):
    logger.warning("called with %d rows", len(x))
    return sce(self, x, t)


def _logged_value(self, x, t):
    value = sce(self, x, t)
    logger.warning("value %s", value.array)
    return value


def _warned(self, x, t):
    warnings.warn(f"{len(x)} rows", stacklevel=1)
    return sce(self, x, t)


def _asserted(self, x, t):
    value = sce(self, x, t)
    assert np.isfinite(value.array).all()
    return value


def _asserted_sum(self, x, t):
    p = F.softmax(self.net(x))
    assert np.allclose(p.array.sum(1), 1, atol=1e-4)
    return sce(self, x, t)


def _asserted_range(self, x, t):
    assert t.min() >= 0 and t.max() < 3
    return sce(self, x, t)


def _asserted_shape(self, x, t):
    assert x.shape[1:] == (4,), x.shape
    return sce(self, x, t)


def _raise_if_nan(self, x, t):
    value = sce(self, x, t)
    if np.isnan(value.array):
        raise RuntimeError("not a number")
    return value


def _nan_rows_dropped(self, x, t):
    keep = ~np.isnan(np.log(x[:, 0] + 2)) if len(x) else x
    return F.softmax_cross_entropy(self.net(x), np.where(keep, t, -1).astype("i"))


def _timed(self, x, t):
    start = time.perf_counter()
    value = sce(self, x, t)
    TIMES.append(time.perf_counter() - start > 0)
    return value


def _timed_attribute(self, x, t):
    start = time.time()
    value = sce(self, x, t)
    self.fast = time.time() - start < 100
    return value


def _stack_depth(self, x, t):
    LOG.append(sys._getframe().f_code.co_name)
    return sce(self, x, t)


def _traceback(self, x, t):
    LOG.append(len(traceback.extract_stack()) > 0)
    return sce(self, x, t)


def _meter(self, x, t):
    value = sce(self, x, t)
    METER.add(value.array)
    return value


def _meter_float(self, x, t):
    value = sce(self, x, t)
    METER.add(float(value.array))
    return value


def _meter_attribute(self, x, t):
    if not hasattr(self, "meter"):
        self.meter = Meter()
    value = sce(self, x, t)
    self.meter.add(len(x))
    chainer.report({"mean": self.meter.total / self.meter.n}, self)
    return value


def _min_max(self, x, t):
    STATS["min"] = min(STATS["min"], float(x.min()))
    STATS["max"] = max(STATS["max"], float(x.max()))
    return sce(self, x, t)


def _min_max_numpy(self, x, t):
    STATS["min"] = np.minimum(STATS["min"], x.min())
    return sce(self, x, t)


def _confusion(self, x, t):
    value = sce(self, x, t)
    np.add.at(CONFUSION, (t, self.y.array.argmax(1)), 1)
    return value


def _confusion_rebound(self, x, t):
    global CONFUSION
    value = sce(self, x, t)
    CONFUSION = CONFUSION + np.bincount(3 * t + self.y.array.argmax(1), minlength=9).reshape(3, 3)
    return value


def _summary(self, x, t):
    value = sce(self, x, t)
    SUMMARY.add(value.array)
    LOG.append(SUMMARY.compute_mean().copy())
    return value


def _summary_attribute(self, x, t):
    if not hasattr(self, "summary"):
        self.summary = chainer.reporter.DictSummary()
    value = sce(self, x, t)
    self.summary.add({"loss": value})
    chainer.report(self.summary.compute_mean(), self)
    return value


def _seen_labels(self, x, t):
    for k in t:
        LOG.append(int(k))
    return sce(self, x, t)


def _seen_classes(self, x, t):
    self.classes = sorted(set(getattr(self, "classes", [])) | set(t.tolist()))
    return sce(self, x, t)


def _counter_classes(self, x, t):
    if not hasattr(self, "seen"):
        self.seen = collections.Counter()
    self.seen.update(t.tolist())
    return sce(self, x, t)


def _activation_log(self, x, t):
    h = F.tanh(self.l1(x))
    LOG.append((h.array.mean(), h.array.std()))
    return F.softmax_cross_entropy(self.l2(h), t)


def _activations_kept(self, x, t):
    self.activations = []
    h = x
    for link in (self.l1, self.l2):
        h = F.tanh(link(h))
        self.activations.append(h)
    return F.softmax_cross_entropy(h, t)


def _activations_dict_arrays(self, x, t):
    h1 = F.tanh(self.l1(x))
    y = self.l2(h1)
    self.layers = {"h1": h1.array, "y": y.array}
    return F.softmax_cross_entropy(y, t)


def _last_inputs(self, x, t):
    self.last_x, self.last_t = x, t
    return sce(self, x, t)


def _last_prediction(self, x, t):
    value = sce(self, x, t)
    self.predicted = self.y.array.argmax(axis=1)
    return value


def _last_prediction_list(self, x, t):
    value = sce(self, x, t)
    self.predicted = self.y.array.argmax(axis=1).tolist()
    return value


def _wrong_examples(self, x, t):
    value = sce(self, x, t)
    self.wrong = np.flatnonzero(self.y.array.argmax(1) != t)
    return value


def _redirected(self, x, t):
    with contextlib.redirect_stdout(OUT):
        print("hello")
    return sce(self, x, t)


def _graph_size(self, x, t):
    value = sce(self, x, t)
    LOG.append(len(chainer.computational_graph.build_computational_graph([value]).nodes))
    return value


def _creator_label(self, x, t):
    value = sce(self, x, t)
    LOG.append(value.creator.label)
    return value


def _node_rank(self, x, t):
    value = sce(self, x, t)
    return value * value.rank


def _debug_attribute(self, x, t):
    self.shapes = [x.shape, self.l1(x).shape]
    return sce(self, x, t)


def _loss_attribute_float(self, x, t):
    value = sce(self, x, t)
    self.last_loss = float(value.array)
    return value


def _loss_attribute_array(self, x, t):
    value = sce(self, x, t)
    self.last_loss = value.array
    return value


def _loss_attribute_np(self, x, t):
    value = sce(self, x, t)
    self.last_loss = np.float32(value.array)
    return value


def _early_stopping_state(self, x, t):
    value = sce(self, x, t)
    v = float(value.array)
    if v < getattr(self, "low", 1e9):
        self.low, self.patience = v, 0
    else:
        self.patience += 1
    return value


def _anneal_on_plateau(self, x, t):
    value = sce(self, x, t)
    if getattr(self, "old", None) is not None and value.array > self.old:
        self.factor = getattr(self, "factor", 1.0) * 0.5
    self.old = value.array
    return value * getattr(self, "factor", 1.0)


table(
    globals(),
    loss,
    {
        f"log{f.__name__}": f
        for f in (
            _print,
            _print_value,
            _print_array,
            _print_variable,
            _write,
            _csv,
            _json,
            _logged,
            _logged_value,
            _warned,
            _asserted,
            _asserted_sum,
            _asserted_range,
            _asserted_shape,
            _raise_if_nan,
            _nan_rows_dropped,
            _timed,
            _timed_attribute,
            _stack_depth,
            _traceback,
            _meter,
            _meter_float,
            _meter_attribute,
            _min_max,
            _min_max_numpy,
            _confusion,
            _confusion_rebound,
            _summary,
            _summary_attribute,
            _seen_labels,
            _seen_classes,
            _counter_classes,
            _activation_log,
            _activations_kept,
            _activations_dict_arrays,
            _last_inputs,
            _last_prediction,
            _last_prediction_list,
            _wrong_examples,
            _redirected,
            _graph_size,
            _creator_label,
            _node_rank,
            _debug_attribute,
            _loss_attribute_float,
            _loss_attribute_array,
            _loss_attribute_np,
            _early_stopping_state,
            _anneal_on_plateau,
        )
    },
)


def statistic(update):
    """`update(self, x)` gives what the layer sees."""

    def program(run):
        class Model(chainer.Chain):
            def __init__(self):
                super().__init__()
                with self.init_scope():
                    self.fc = L.Linear(4, 3)
                for name, value in (
                    ("mean", np.zeros(4, "f")),
                    ("var", np.ones(4, "f")),
                    ("n", 0),
                    ("count", np.zeros((), "f")),
                    ("low", np.full(4, 9, "f")),
                ):
                    self.add_persistent(name, value)

            def forward(self, x, t):
                return F.softmax_cross_entropy(self.fc(update(self, x)), t)

        model = run.static(Model())
        rule = run.optimizer(chainer.optimizers.SGD(0.1)).setup(model)
        for n in (6, 6, 6, 3, 6, 3, 6):
            run.observe(model, rule.update, model, run.array(n, 4), run.labels(n, 3))
            run.see("model", model)
        with chainer.using_config("train", False):
            run.see("test", model(run.array(6, 4), run.labels(6, 3)), model)

    return program


def _running_rebound(self, x):
    self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
    return x - self.mean


def _running_in_place(self, x):
    self.mean *= 0.9
    self.mean += 0.1 * x.mean(0)
    return x - self.mean


def _running_ellipsis(self, x):
    self.mean[...] = 0.9 * self.mean + 0.1 * x.mean(0)
    return x - self.mean


def _running_copyto(self, x):
    chainer.backend.copyto(self.mean, (0.9 * self.mean + 0.1 * x.mean(0)).astype("f"))
    return x - self.mean


def _running_np_copyto(self, x):
    np.copyto(self.mean, 0.5 * self.mean + 0.5 * x.mean(0))
    return x - self.mean


def _running_train_only(self, x):
    if chainer.config.train:
        self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
        return x - x.mean(0)
    return x - self.mean


def _welford(self, x):
    self.n += len(x)
    delta = x.mean(0) - self.mean
    self.mean = self.mean + delta * len(x) / self.n
    return (x - self.mean).astype("f")


def _count_array(self, x):
    self.count += len(x)
    return x / self.count


def _count_array_rebound(self, x):
    self.count = self.count + 1
    return x / self.count


def _bias_correction(self, x):
    self.n += 1
    self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
    return x - (self.mean / (1 - 0.9**self.n)).astype("f")


def _both_moments(self, x):
    self.mean, self.var = 0.9 * self.mean + 0.1 * x.mean(0), 0.9 * self.var + 0.1 * x.var(0)
    return (x - self.mean) / np.sqrt(self.var + 1e-3)


def _lowest(self, x):
    self.low = np.minimum(self.low, x.min(0))
    return x - self.low


def _lowest_out(self, x):
    np.minimum(self.low, x.min(0), out=self.low)
    return x - self.low


def _first_batch_only(self, x):
    if self.n == 0:
        self.mean, self.n = x.mean(0), 1
    return x - self.mean


def _sometimes(self, x):
    self.n += 1
    if self.n % 3 == 0:
        self.mean = x.mean(0)
    return x - self.mean


def _when_far(self, x):
    if abs(x.mean(0) - self.mean).max() > 0.5:
        self.mean = x.mean(0)
    return x - self.mean


def _where_far(self, x):
    m = x.mean(0)
    self.mean = np.where(abs(m - self.mean) > 0.5, m, self.mean)
    return x - self.mean


def _after_use(self, x):
    y = x - self.mean
    self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
    return y


def _reset_when_large(self, x):
    self.var = self.var + x.var(0)
    if self.var.max() > 5:
        self.var[...] = 1
    return x / self.var


def _variable_statistic(self, x):
    h = F.mean(chainer.as_variable(x), axis=0)
    self.mean = 0.9 * self.mean + 0.1 * h.array
    return x - self.mean


def _nested_dict(self, x):
    if not hasattr(self, "moments"):
        self.moments = {"mean": np.zeros(4, "f"), "n": 0}
    self.moments["mean"] = 0.9 * self.moments["mean"] + 0.1 * x.mean(0)
    self.moments["n"] += 1
    return x - self.moments["mean"]


def _history_matrix(self, x):
    self.window = np.vstack([getattr(self, "window", np.zeros((3, 4), "f"))[1:], x.mean(0)])
    return x - self.window.mean(0)


def _history_growing(self, x):
    self.window = np.vstack([getattr(self, "window", np.zeros((1, 4), "f")), x.mean(0)])
    return x - self.window.mean(0)


for _f in (
    _running_rebound,
    _running_in_place,
    _running_ellipsis,
    _running_copyto,
    _running_np_copyto,
    _running_train_only,
    _welford,
    _count_array,
    _count_array_rebound,
    _bias_correction,
    _both_moments,
    _lowest,
    _lowest_out,
    _first_batch_only,
    _sometimes,
    _when_far,
    _where_far,
    _after_use,
    _reset_when_large,
    _variable_statistic,
    _nested_dict,
    _history_matrix,
    _history_growing,
):
    globals()[f"p_statistic{_f.__name__}"] = statistic(_f)


def captured(body):
    """What a static forward writes to standard output is seen."""

    def program(run):
        class Model(Net):
            forward = run.static(body)

        model = Model()
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            for n in (4, 4, 4, 2, 4):
                model(run.array(n, 4))
        run.see("printed", out.getvalue())

    return program


def _says(self, x):
    print("forward")
    return self.net(x)


def _says_value(self, x):
    y = self.net(x)
    print(round(float(y.array.sum()), 2))
    return y


def _says_array(self, x):
    y = self.net(x)
    print(y.array.round(1))
    return y


p_prints = captured(_says)
p_prints_value = captured(_says_value)
p_prints_array = captured(_says_array)


@forward(inputs=labelled)
def p_summary_table_returned(self, x, t):
    y = self.net(x)
    return {
        "accuracy": float((y.array.argmax(1) == t).mean()),
        "counts": np.bincount(t, minlength=3).tolist(),
        "first": y.array[0],
    }
