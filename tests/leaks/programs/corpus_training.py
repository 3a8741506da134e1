"""Optimizers, hooks and schedules; iterators, converters, data sets; the Trainer."""

import collections
import json
import tempfile
from pathlib import Path

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np
from chainer import datasets, iterators, training
from chainer.dataset import concat_examples
from chainer.training import extensions

from tests.leaks.programs._kit import Net, Normed

CURRICULUM = {"level": 1}


class Plain(Net):
    def forward(self, x):
        return self.net(x)


class Dropped(Normed):
    def forward(self, x):
        return self.l2(F.dropout(F.relu(self.bn(self.l1(x))), 0.3))


def data(run, n=20):
    return datasets.TupleDataset(run.array(n, 4), run.labels(n, 3))


RULES = {
    "sgd": lambda o: o.SGD(0.1),
    "momentum": lambda o: o.MomentumSGD(0.1),
    "nesterov": lambda o: o.NesterovAG(0.1),
    "adam": lambda o: o.Adam(),
    "adamw": lambda o: o.Adam(weight_decay_rate=0.1, eta=0.5),
    "amsgrad": lambda o: o.Adam(amsgrad=True),
    "adabound": lambda o: o.AdaBound(),
    "rmsprop": lambda o: o.RMSprop(),
    "rmsprop_graves": lambda o: o.RMSpropGraves(),
    "adagrad": lambda o: o.AdaGrad(),
    "adadelta": lambda o: o.AdaDelta(),
    "smorms3": lambda o: o.SMORMS3(),
    "corrected_momentum": lambda o: o.CorrectedMomentumSGD(),
}


def steps(prepare, make=Plain, rounds=8, before=None):
    """Whole steps of a classifier with an optimizer that `prepare(model)` sets up."""

    def program(run):
        model = run.static(L.Classifier(make()))
        rule = prepare(run, model)
        for i in range(rounds):
            if before is not None:
                before(model, rule, i)
            run.observe(
                model,
                rule.update,
                model,
                run.array(3 if i == 4 else 6, 4),
                run.labels(3 if i == 4 else 6, 3),
            )
            run.see("model", model, rule.t)

    return program


for _name, _make in RULES.items():
    globals()[f"p_rule_{_name}"] = steps(
        lambda run, m, f=_make: run.optimizer(f(chainer.optimizers)).setup(m)
    )
    globals()[f"p_rule_plain_{_name}"] = steps(
        lambda run, m, f=_make: f(chainer.optimizers).setup(m), make=Dropped
    )


def hooked(*hooks, rule="SGD"):
    def prepare(run, model):
        optimizer = run.optimizer(getattr(chainer.optimizers, rule)()).setup(model)
        for hook in hooks:
            optimizer.add_hook(hook())
        return optimizer

    return steps(prepare)


H = chainer.optimizer_hooks
p_hook_decay = hooked(lambda: H.WeightDecay(0.1))
p_hook_lasso = hooked(lambda: H.Lasso(0.1))
p_hook_clipping = hooked(lambda: H.GradientClipping(0.1), rule="Adam")
p_hook_hard_clipping = hooked(lambda: H.GradientHardClipping(-0.01, 0.01))
p_hook_noise = hooked(lambda: H.GradientNoise(0.1))
p_hook_lars = hooked(lambda: H.GradientLARS(), rule="MomentumSGD")
p_hook_two = hooked(lambda: H.WeightDecay(0.1), lambda: H.GradientClipping(0.2))
p_hook_two_reversed = hooked(lambda: H.GradientClipping(0.2), lambda: H.WeightDecay(0.1))


class Centralise:
    name = "centralise"
    call_for_each_param = True
    timing = "pre"

    def __call__(self, rule, param):
        if param.grad is not None and param.ndim > 1:
            param.grad -= param.grad.mean(axis=1, keepdims=True)


class CountCalls:
    name = "count"
    call_for_each_param = False
    timing = "post"

    def __init__(self):
        self.calls = 0

    def __call__(self, optimizer):
        self.calls += 1
        if self.calls % 3 == 0:
            for p in optimizer.target.params():
                p.array *= 0.5


class OnlyWeights(H.WeightDecay):
    def __call__(self, rule, param):
        if param.name == "W":
            super().__call__(rule, param)


p_hook_own = hooked(Centralise)
p_hook_own_counting = hooked(CountCalls)
p_hook_own_subclass = hooked(lambda: OnlyWeights(0.1))


def _schedule(model, rule, i):
    rule.lr = 0.1 * 0.5**i


def _warm_up(model, rule, i):
    rule.alpha = 1e-2 * min(1.0, (i + 1) / 4)


def _cosine(model, rule, i):
    rule.lr = 0.05 * (1 + np.cos(np.pi * i / 8))


def _numpy_rate(model, rule, i):
    rule.lr = np.float32(0.1 / (i + 1))


def _betas(model, rule, i):
    rule.beta1 = 0.9 if i < 4 else 0.5


def _t_set(model, rule, i):
    if i == 4:
        rule.t = 0


def _loss_scaling(model, rule, i):
    if i == 0:
        rule.loss_scaling(scale=8.0)


def _cleared_flag(model, rule, i):
    if i == 3:
        rule.use_cleargrads(False)


def _state_zeroed(model, rule, i):
    if i == 4:
        for p in model.params():
            for name, s in p.update_rule.state.items():
                if isinstance(s, np.ndarray):
                    p.update_rule.state[name] = np.zeros_like(s)


def _rule_swapped_setup(model, rule, i):
    if i == 4:
        rule.setup(model)


for _name, _rule, _before in (
    ("step", "SGD", _schedule), ("warm_up", "Adam", _warm_up), ("cosine", "MomentumSGD", _cosine),
    ("numpy_rate", "SGD", _numpy_rate), ("betas", "Adam", _betas), ("t_set", "Adam", _t_set),
    ("loss_scaling", "SGD", _loss_scaling), ("cleared_flag", "SGD", _cleared_flag),
    ("state_zeroed", "MomentumSGD", _state_zeroed), ("setup_again", "Adam", _rule_swapped_setup),
):  # fmt: skip
    globals()[f"p_schedule_{_name}"] = steps(
        lambda run, m, r=_rule: run.optimizer(getattr(chainer.optimizers, r)()).setup(m),
        before=_before,
    )


def p_accumulate_gradients(run):
    model = run.static(L.Classifier(Plain()))
    rule = run.optimizer(chainer.optimizers.Adam()).setup(model)
    for _ in range(4):
        model.cleargrads()
        for n in (4, 4, 2):
            (model(run.array(n, 4), run.labels(n, 3)) / 3).backward()
        rule.update()
        run.see("model", model, rule.t)


def p_clip_by_hand(run):
    model = run.static(L.Classifier(Plain()))
    rule = chainer.optimizers.SGD(0.1).setup(model)
    for _ in range(6):
        model.cleargrads()
        model(run.array(4, 4), run.labels(4, 3)).backward()
        norm = np.sqrt(sum(float((p.grad**2).sum()) for p in model.params()))
        for p in model.params():
            p.grad *= np.float32(min(1.0, 0.1 / norm))
        rule.update()
        run.see("model", float(norm), model)


def p_two_optimizers_parts(run):
    model = run.static(L.Classifier(Plain()))
    a = chainer.optimizers.SGD(0.1).setup(model.predictor.l1)
    b = chainer.optimizers.Adam().setup(model.predictor.l2)
    for i in range(7):
        model.cleargrads()
        model(run.array(4, 4), run.labels(4, 3)).backward()
        a.update()
        if i % 2:
            b.update()
        run.see("model", model)


def p_two_static_optimizers_one_model(run):
    model = run.static(L.Classifier(Plain()))
    a = run.optimizer(chainer.optimizers.SGD(0.1)).setup(model)
    b = run.optimizer(chainer.optimizers.Adam()).setup(model)
    for i in range(8):
        (a if i % 3 else b).update(model, run.array(4, 4), run.labels(4, 3))
        run.see("model", model)


def p_switch_optimizer_midway(run):
    model = run.static(L.Classifier(Plain()))
    rule = run.optimizer(chainer.optimizers.Adam()).setup(model)
    for i in range(8):
        if i == 4:
            rule = run.optimizer(chainer.optimizers.SGD(0.1)).setup(model)
        rule.update(model, run.array(4, 4), run.labels(4, 3))
        run.see("model", model)


def p_gradients_by_finite_steps(run):
    model = run.static(L.Classifier(Plain()))
    rule = chainer.optimizers.SGD(0.1).setup(model)
    for _ in range(5):
        x, t = run.array(4, 4), run.labels(4, 3)
        rule.update(model, x, t)
        for _ in range(3):
            with chainer.no_backprop_mode():
                run.see("after", model(x, t))


def p_line_search(run):
    model = run.static(L.Classifier(Plain()))
    for _ in range(4):
        x, t = run.array(6, 4), run.labels(6, 3)
        model.cleargrads()
        start = model(x, t)
        start.backward()
        saved = [(p.array.copy(), p.grad.copy()) for p in model.params()]
        for rate in (1.0, 0.5, 0.25):
            for p, (a, g) in zip(model.params(), saved, strict=True):
                p.array = a - rate * g
            if float(model(x, t).array) < float(start.array):
                break
        run.see("model", rate, model)


def p_evaluate_between(run):
    model = run.static(L.Classifier(Dropped()))
    rule = run.optimizer(chainer.optimizers.Adam()).setup(model)
    for _ in range(5):
        run.observe(model, rule.update, model, run.array(6, 4), run.labels(6, 3))
        with chainer.using_config("train", False), chainer.no_backprop_mode():
            for n in (5, 5, 2):
                run.observe(model, model, run.array(n, 4), run.labels(n, 3))
        run.see("model", model)


def p_compute_accuracy_flag(run):
    model = run.static(L.Classifier(Plain()))
    rule = run.optimizer(chainer.optimizers.SGD()).setup(model)
    for i in range(8):
        model.compute_accuracy = i % 3 != 2
        run.observe(model, rule.update, model, run.array(6, 4), run.labels(6, 3))
        run.see("model", model, model.accuracy)


def p_lossfun_swapped(run):
    model = run.static(L.Classifier(Plain()))
    rule = run.optimizer(chainer.optimizers.SGD()).setup(model)
    for i in range(8):
        if i == 3:
            model.lossfun = lambda y, t: F.softmax_cross_entropy(y, t) * 2
        if i == 5:
            model.lossfun = F.hinge
        if i == 6:
            model.accfun = lambda y, t: F.mean(y)
        run.observe(model, rule.update, model, run.array(6, 4), run.labels(6, 3))


def p_regressor_keys(run):
    model = run.static(L.Classifier(Plain(), lossfun=F.mean_squared_error, label_key="goal"))
    model.compute_accuracy = False
    rule = run.optimizer(chainer.optimizers.SGD()).setup(model)
    for _ in range(5):
        run.observe(model, rule.update, model, run.array(4, 4), goal=run.array(4, 3))
        run.see("model", model)


def p_converter_and_iterator(run):
    model = run.static(L.Classifier(Dropped()))
    rule = run.optimizer(chainer.optimizers.Adam()).setup(model)
    it = iterators.SerialIterator(data(run), 6)
    while it.epoch < 3:
        x, t = concat_examples(it.next())
        rule.update(model, x, t)
        run.see("model", model, it.epoch_detail, it.is_new_epoch)


def p_iterator_no_repeat(run):
    model = run.static(L.Classifier(Plain()))
    train, test = data(run), data(run, 9)
    rule = run.optimizer(chainer.optimizers.SGD()).setup(model)
    for _ in range(3):
        for batch in iterators.SerialIterator(train, 8, repeat=False):
            rule.update(model, *concat_examples(batch))
        with chainer.using_config("train", False):
            values = [
                float(model(*concat_examples(b)).array) * len(b)
                for b in iterators.SerialIterator(test, 4, repeat=False, shuffle=False)
            ]
        run.see("test", sum(values) / len(test), model)


def p_transform_dataset(run):
    def augment(example):
        x, t = example
        return (x + np.random.randn(4).astype("f") * 0.1)[:: np.random.choice([1, -1])], t

    model = run.static(L.Classifier(Plain()))
    rule = run.optimizer(chainer.optimizers.SGD()).setup(model)
    it = iterators.SerialIterator(datasets.TransformDataset(data(run), augment), 5)
    for _ in range(8):
        rule.update(model, *concat_examples(it.next()))
        run.see("model", model)


def p_padding_converter(run):
    model = run.static(Plain())
    for n in range(7):
        rows = [run.array(k + 1) for k in run.labels(4, 4)]
        x = concat_examples(rows, padding=0)
        x = np.pad(x, ((0, 0), (0, 4 - x.shape[1])))
        run.see("y", n, model(x))


def p_shuffled_by_hand(run):
    model = run.static(L.Classifier(Plain()))
    rule = run.optimizer(chainer.optimizers.SGD(0.1)).setup(model)
    x, t = run.array(18, 4), run.labels(18, 3)
    for _ in range(3):
        order = np.random.permutation(18)
        total = 0
        for i in range(0, 18, 6):
            k = order[i : i + 6]
            rule.update(model, x[k], t[k])
            total += float(model.loss.array) * len(k)
        run.see("epoch", total / 18, model)


def p_reused_batch_buffer(run):
    model = run.static(L.Classifier(Plain()))
    rule = run.optimizer(chainer.optimizers.SGD(0.1)).setup(model)
    x, t = np.empty((6, 4), "f"), np.empty(6, "i")
    losses = []
    for _ in range(7):
        x[...], t[...] = run.array(6, 4), run.labels(6, 3)
        rule.update(model, x, t)
        losses.append(model.loss)
    run.see("losses", losses)


def p_dict_batches(run):
    class Model(Plain):
        def forward(self, x, t):
            return F.softmax_cross_entropy(self.net(x), t)

    model = run.static(Model())
    rule = run.optimizer(chainer.optimizers.SGD(0.1)).setup(model)
    examples = [{"x": run.array(4), "t": np.int32(k % 3)} for k in range(12)]
    it = iterators.SerialIterator(examples, 4)
    for _ in range(6):
        rule.update(model, **concat_examples(it.next()))
        run.see("model", model)


def trainer(run, extend, model=None, epochs=4, optimizer=None, n=20):
    """A Trainer over a few epochs; `extend(trainer, model, test)` adds extensions."""
    model = run.static(model or L.Classifier(Dropped()))
    optimizer = run.optimizer(optimizer or chainer.optimizers.Adam()).setup(model)
    train, test = data(run, n), data(run, 7)
    updater = training.updaters.StandardUpdater(iterators.SerialIterator(train, 6), optimizer)
    with tempfile.TemporaryDirectory() as folder:
        t = training.Trainer(updater, (epochs, "epoch"), out=folder)
        extend(t, model, iterators.SerialIterator(test, 4, repeat=False, shuffle=False))
        t.run()
        for path in sorted(Path(folder).glob("log*")):
            log = json.loads(path.read_text())
            run.see("log", [{k: v for k, v in e.items() if k != "elapsed_time"} for e in log])
    run.see("model", model, updater.iteration, optimizer.t)


def p_trainer_plain(run):
    trainer(run, lambda t, m, it: None)


def p_trainer_log(run):
    trainer(run, lambda t, m, it: t.extend(extensions.LogReport(trigger=(2, "iteration"))))


def p_trainer_evaluator(run):
    def extend(t, m, it):
        t.extend(extensions.Evaluator(it, m))
        t.extend(extensions.LogReport())

    trainer(run, extend)


def p_trainer_shift(run):
    def extend(t, m, it):
        t.extend(extensions.ExponentialShift("alpha", 0.5), trigger=(2, "iteration"))
        t.extend(extensions.LogReport(trigger=(1, "iteration")))
        t.extend(extensions.observe_lr())

    trainer(run, extend)


def p_trainer_snapshot(run):
    def extend(t, m, it):
        t.extend(extensions.snapshot(), trigger=(1, "epoch"))
        t.extend(
            extensions.snapshot_object(m, "model_{.updater.iteration}"), trigger=(3, "iteration")
        )

    trainer(run, extend)


def p_trainer_statistics(run):
    def extend(t, m, it):
        t.extend(extensions.ParameterStatistics(m, {"mean": np.mean}, trigger=(1, "iteration")))
        t.extend(extensions.LogReport(trigger=(2, "iteration")))

    trainer(run, extend, L.Classifier(Plain()))


def p_trainer_fail_on_nan(run):
    trainer(run, lambda t, m, it: t.extend(extensions.FailOnNonNumber()))


def p_trainer_micro_average(run):
    class Model(Plain):
        def forward(self, x, t):
            y = self.net(x)
            chainer.report({"hit": (y.array.argmax(1) == t).sum(), "n": len(t)}, self)
            return F.softmax_cross_entropy(y, t)

    def extend(t, m, it):
        t.extend(extensions.MicroAverage("main/hit", "main/n", "main/rate", trigger=(1, "epoch")))
        t.extend(extensions.LogReport())

    trainer(run, extend, Model())


def p_trainer_own_extension(run):
    seen = []

    @training.make_extension(trigger=(2, "iteration"))
    def extension(t):
        seen.append((t.updater.iteration, dict(t.observation)))
        for p in t.updater.get_optimizer("main").target.params():
            p.array *= 0.99

    trainer(run, lambda t, m, it: t.extend(extension))
    run.see("seen", seen)


def p_trainer_curriculum(run):
    class Model(Plain):
        def forward(self, x, t):
            return F.softmax_cross_entropy(self.net(x), t) * CURRICULUM["level"]

    def extend(t, m, it):
        t.extend(
            lambda t: CURRICULUM.update(level=t.updater.epoch + 1),
            trigger=(1, "epoch"),
            name="level",
        )

    trainer(run, extend, Model())


def p_trainer_freeze_by_extension(run):
    def extend(t, m, it):
        t.extend(lambda t: m.predictor.l1.disable_update(), trigger=(2, "epoch"), name="freeze")

    trainer(run, extend, L.Classifier(Plain()))


def p_trainer_best_value(run):
    def extend(t, m, it):
        t.extend(extensions.Evaluator(it, m))
        t.extend(extensions.LogReport())
        t.extend(
            extensions.snapshot_object(m, "best"),
            trigger=training.triggers.MaxValueTrigger("validation/main/accuracy"),
        )

    trainer(run, extend)


def p_trainer_early_stopping(run):
    model = run.static(L.Classifier(Plain()))
    optimizer = run.optimizer(chainer.optimizers.SGD(0.5)).setup(model)
    updater = training.updaters.StandardUpdater(iterators.SerialIterator(data(run), 6), optimizer)
    stop = training.triggers.EarlyStoppingTrigger(
        monitor="main/loss", patients=2, max_trigger=(6, "epoch")
    )
    with tempfile.TemporaryDirectory() as folder:
        t = training.Trainer(updater, stop, out=folder)
        t.extend(extensions.LogReport())
        t.run()
    run.see("model", model, updater.iteration)


def p_trainer_resume(run):
    def build():
        model = run.static(L.Classifier(Plain()))
        rule = run.optimizer(chainer.optimizers.Adam()).setup(model)
        it = iterators.SerialIterator(examples, 5, shuffle=False)
        return model, training.updaters.StandardUpdater(it, rule)

    examples = data(run)
    with tempfile.TemporaryDirectory() as folder:
        model, updater = build()
        t = training.Trainer(updater, (5, "iteration"), out=folder)
        t.extend(extensions.snapshot(filename="now"), trigger=(5, "iteration"))
        t.run()
        run.see("first", model)
        model, updater = build()
        t = training.Trainer(updater, (9, "iteration"), out=folder)
        chainer.serializers.load_npz(Path(folder) / "now", t)
        t.run()
        run.see("second", model)


def p_trainer_own_updater(run):
    class Updater(training.updaters.StandardUpdater):
        def update_core(self):
            optimizer = self.get_optimizer("main")
            x, t = self.converter(self.get_iterator("main").next(), self.device)
            model = optimizer.target
            for k in range(2):
                model.cleargrads()
                value = model(x + 0.01 * k, t)
                value.backward()
                optimizer.update()
            chainer.report({"extra": value * 2})

    model = run.static(L.Classifier(Plain()))
    optimizer = run.optimizer(chainer.optimizers.SGD(0.1)).setup(model)
    with tempfile.TemporaryDirectory() as folder:
        t = training.Trainer(
            Updater(iterators.SerialIterator(data(run), 6), optimizer), (8, "iteration"), folder
        )
        log = extensions.LogReport(trigger=(1, "iteration"))
        t.extend(log)
        t.run()
        run.see("extra", [e["extra"] for e in log.log], model)


def p_trainer_noise_converter(run):
    @chainer.dataset.converter()
    def convert(batch, device):
        x, t = concat_examples(batch)
        return x * np.random.binomial(1, 0.8, x.shape).astype("f"), t

    model = run.static(L.Classifier(Plain()))
    optimizer = run.optimizer(chainer.optimizers.SGD(0.1)).setup(model)
    it = iterators.SerialIterator(data(run), 6)
    updater = training.updaters.StandardUpdater(it, optimizer, converter=convert)
    for _ in range(8):
        updater.update()
        run.see("model", model)


def p_updater_loss_func(run):
    model = run.static(Plain())
    optimizer = run.optimizer(chainer.optimizers.SGD(0.1)).setup(model)
    history = collections.deque(maxlen=3)

    def loss(x, t):
        value = F.softmax_cross_entropy(model(x), t)
        history.append(float(value.array))
        return value * len(history)

    it = iterators.SerialIterator(data(run), 6)
    updater = training.updaters.StandardUpdater(it, optimizer, loss_func=loss)
    for _ in range(8):
        updater.update()
        run.see("model", model, list(history))


def p_updater_static_loss_func(run):
    model = Plain()
    optimizer = chainer.optimizers.SGD(0.1).setup(model)
    level = {"n": 0}

    @run.static
    def loss(x, t):
        level["n"] += 1
        return F.softmax_cross_entropy(model(x), t) * level["n"]

    it = iterators.SerialIterator(data(run), 6)
    updater = training.updaters.StandardUpdater(it, optimizer, loss_func=loss)
    for _ in range(8):
        updater.update()
        run.see("model", model, dict(level))


def p_multiprocess_free_iterator_state(run):
    model = run.static(L.Classifier(Plain()))
    rule = run.optimizer(chainer.optimizers.SGD(0.1)).setup(model)
    it = iterators.MultithreadIterator(data(run), 5, n_threads=2, shuffle=False)
    for _ in range(6):
        rule.update(model, *concat_examples(it.next()))
        run.see("model", model)
    it.finalize()


def p_cross_validation(run):
    folds = datasets.get_cross_validation_datasets(data(run, 12), 3)
    for train, test in folds:
        model = run.static(L.Classifier(Plain()))
        rule = run.optimizer(chainer.optimizers.SGD(0.1)).setup(model)
        for _ in range(4):
            rule.update(model, *concat_examples(train))
        with chainer.using_config("train", False):
            run.see("fold", model(*concat_examples(test)), model)


def p_sub_dataset_imbalance(run):
    model = run.static(L.Classifier(Plain()))
    rule = run.optimizer(chainer.optimizers.SGD(0.1)).setup(model)
    x, t = run.array(24, 4), run.labels(24, 3)
    for k in range(9):
        pick = np.flatnonzero(t == k % 3)
        rule.update(model, x[pick], t[pick])
        run.see("model", model)
