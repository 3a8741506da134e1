"""Between calls: parameters frozen, replaced, tied, copied, clipped; copies, files, averages."""

import copy
import io
import pickle
import tempfile
from pathlib import Path

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np
from chainer import serializers

from tests.leaks.programs._kit import Net, Normed, Recurrent


class Plain(Net):
    def forward(self, x):
        return self.net(x)


class WithNorm(Normed):
    def forward(self, x):
        return self.l2(self.bn(self.l1(x)))


class Slow(chainer.optimizer_hooks.WeightDecay):
    pass


def between(change, make=Plain, rounds=9, rule="SGD", late=None):
    """Training steps; `change(model, i, store)` before each; may return another model."""

    def program(run):
        model = run.static(make())
        optimizer = run.optimizer(getattr(chainer.optimizers, rule)()).setup(model)
        store = {"run": run, "optimizer": optimizer}
        for i in range(rounds):
            model = change(model, i, store) or model
            y = model(run.array(5, 4))
            model.cleargrads()
            F.sum(y * y).backward()
            run.see("y", y, model)
            optimizer.update()
            run.see("model", model)

    return program


def whole(change, rounds=9, rule="SGD"):
    """Whole steps of a classifier; `change(model, i, store)` before each."""

    def program(run):
        model = run.static(L.Classifier(Plain()))
        optimizer = run.optimizer(getattr(chainer.optimizers, rule)()).setup(model)
        store = {"run": run, "optimizer": optimizer}
        for i in range(rounds):
            model = change(model, i, store) or model
            run.observe(model, optimizer.update, model, run.array(5, 4), run.labels(5, 3))
            run.see("model", model)

    return program


def at(*steps):
    """A change at some of the steps."""

    def decorate(f):
        def change(model, i, store):
            return f(model, store) if i in steps else None

        change.__name__ = f.__name__
        return change

    return decorate


BETWEEN = []


def change(f):
    BETWEEN.append(f)
    return f


def head(model):
    return model.l1 if hasattr(model, "l1") else model.predictor.l1


def tail(model):
    return model.l2 if hasattr(model, "l2") else model.predictor.l2


@change
@at(3)
def freeze(model, store):
    head(model).disable_update()


@change
@at(3)
def freeze_and_thaw(model, store):
    head(model).disable_update()
    tail(model).disable_update()
    tail(model).enable_update()


@change
def freeze_every_other(model, i, store):
    (head(model).disable_update if i % 2 else head(model).enable_update)()


@change
@at(3)
def requires_grad_off(model, store):
    head(model).W._requires_grad = False


@change
@at(3)
def array_replaced(model, store):
    head(model).W.array = store["run"].array(8, 4)


@change
@at(3, 5)
def array_in_place(model, store):
    head(model).W.array[0] = 0


@change
@at(3)
def data_replaced(model, store):
    head(model).W.data = np.zeros((8, 4), "f")


@change
@at(3)
def fortran_order(model, store):
    head(model).W.array = np.asfortranarray(head(model).W.array)


@change
@at(3)
def transposed_view(model, store):
    head(model).W.array = np.ascontiguousarray(head(model).W.array.T).T


@change
@at(3)
def slice_of_a_larger(model, store):
    big = np.zeros((9, 5), "f")
    big[:8, :4] = head(model).W.array
    head(model).W.array = big[:8, :4]


@change
@at(3)
def one_block_for_all(model, store):
    block = np.concatenate([p.array.ravel() for p in model.params()])
    k = 0
    for p in model.params():
        p.array = block[k : k + p.size].reshape(p.shape)
        k += p.size
    store["block"] = block


@change
@at(3)
def float64(model, store):
    tail(model).b.array = tail(model).b.array.astype("d").astype("f")


@change
@at(3)
def new_parameter(model, store):
    with head(model).init_scope():
        head(model).W = chainer.Parameter(store["run"].array(8, 4))


@change
@at(3)
def new_parameter_with_rule(model, store):
    with head(model).init_scope():
        head(model).W = chainer.Parameter(store["run"].array(8, 4))
    store["optimizer"].setup(model)


@change
@at(3)
def new_link(model, store):
    owner = model if hasattr(model, "l2") else model.predictor
    del owner.l2
    with owner.init_scope():
        owner.l2 = L.Linear(8, 3)


@change
@at(3)
def wider_link(model, store):
    owner = model if hasattr(model, "l2") else model.predictor
    del owner.l1, owner.l2
    with owner.init_scope():
        owner.l1 = L.Linear(4, 16)
        owner.l2 = L.Linear(16, 3)
    store["optimizer"].setup(model)


@change
@at(3)
def setup_again(model, store):
    store["optimizer"].setup(model)


@change
@at(3)
def initialized_again(model, store):
    head(model).W.initialize((8, 4))


@change
@at(3)
def tie_weights(model, store):
    tail(model).b = head(model).b = chainer.Parameter(np.ones(1, "f"))
    tail(model).b.array = np.ones(3, "f")
    head(model).b = None
    head(model)._params.discard("b")


@change
@at(3)
def nobias(model, store):
    del head(model).b
    head(model).b = None


@change
def clip_weights(model, i, store):
    for p in model.params():
        p.array[...] = np.clip(p.array, -0.1 * (1 + i), 0.1 * (1 + i))


@change
def clip_weights_rebound(model, i, store):
    for p in model.params():
        p.array = p.array.clip(-0.3, 0.3)


@change
def weight_decay_by_hand(model, i, store):
    for name, p in model.namedparams():
        if name.endswith("W"):
            p.array *= 0.9


@change
def moving_average(model, i, store):
    mean = store.setdefault("mean", {n: p.array.copy() for n, p in model.namedparams()})
    for n, p in model.namedparams():
        mean[n] += 0.1 * (p.array - mean[n])
    store["run"].see("mean", mean)


@change
def moving_average_swapped_in(model, i, store):
    mean = store.setdefault("mean", model.copy("copy"))
    for p, q in zip(model.params(), mean.params(), strict=True):
        q.array = 0.9 * q.array + 0.1 * p.array
    if i == 5:
        model.copyparams(mean)


@change
def spectral_by_hand(model, i, store):
    w = head(model).W.array
    w /= max(1.0, np.linalg.svd(w, compute_uv=False)[0])


@change
def orthogonalise(model, i, store):
    if i % 3 == 2:
        head(model).W.array[...] = np.linalg.qr(head(model).W.array)[0]


@change
def noise_on_weights(model, i, store):
    for p in model.params():
        p.array += 0.01 * np.random.randn(*p.shape).astype("f")


@change
def prune_smallest(model, i, store):
    w = head(model).W.array
    w[abs(w) < np.percentile(abs(w), 5 * i)] = 0


@change
def save_and_restore(model, i, store):
    if i == 3:
        store["saved"] = copy.deepcopy(model)
    if i == 6:
        model.copyparams(store["saved"])


@change
def numpy_dict_restored(model, i, store):
    if i == 3:
        store["saved"] = {n: p.array for n, p in model.namedparams()}
    if i == 6:
        for n, p in model.namedparams():
            p.array = store["saved"][n]


@change
def npz_round_trip(model, i, store):
    if i == 3:
        store["file"] = io.BytesIO()
        serializers.save_npz(store["file"], model)
    if i == 6:
        store["file"].seek(0)
        serializers.load_npz(store["file"], model)


@change
def npz_optimizer_round_trip(model, i, store):
    if i == 3:
        store["file"] = io.BytesIO()
        serializers.save_npz(store["file"], store["optimizer"])
    if i == 6:
        store["file"].seek(0)
        serializers.load_npz(store["file"], store["optimizer"])


@change
@at(4)
def npz_on_disk(model, store):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.npz"
        serializers.save_npz(path, model)
        for p in model.params():
            p.array[...] = 0
        serializers.load_npz(path, model)


@change
@at(4)
def dictionary_serializer(model, store):
    target = serializers.DictionarySerializer()
    target.save(model)
    store["run"].see("saved", {k: target.target[k] for k in sorted(target.target)})


@change
@at(3)
def deepcopied(model, store):
    model = copy.deepcopy(model)
    store["optimizer"].setup(model)
    return model


@change
@at(3)
def copied_init(model, store):
    model = model.copy("init")
    for k, p in enumerate(model.params()):
        p.array = np.full(p.shape, 0.1 * (k + 1), "f")
    store["optimizer"].setup(model)
    return model


@change
@at(3)
def copied_share(model, store):
    return model.copy("share")


@change
@at(3)
def pickled(model, store):
    links = pickle.loads(pickle.dumps([head(model), tail(model)]))
    for old, new in zip([head(model), tail(model)], links, strict=True):
        old.copyparams(new)


@change
def alternating_copies(model, i, store):
    other = store.setdefault("other", None)
    if other is None:
        store["other"] = copy.deepcopy(model)
    return store["other"] if i % 3 == 0 and i else None


@change
@at(4)
def to_cpu(model, store):
    model.to_cpu()


@change
@at(4)
def to_device(model, store):
    model.to_device("@numpy")


@change
@at(3)
def ideep_refused(model, store):
    try:
        model.to_intel64()
    except Exception as e:
        store["run"].see("error", type(e).__name__)


@change
def grads_kept(model, i, store):
    store.setdefault("kept", []).append({n: p.grad for n, p in model.namedparams()})
    store["run"].see("kept", store["kept"])


@change
def param_arrays_kept(model, i, store):
    store.setdefault("kept", []).append([p.array for p in model.params()])
    store["run"].see("kept", store["kept"])


@change
@at(4)
def repeat_params(model, store):
    store["run"].see("count", model.count_params(), [n for n, _ in model.namedparams()])


@change
@at(3)
def add_hook(model, store):
    store["optimizer"].add_hook(chainer.optimizer_hooks.WeightDecay(0.1))


@change
@at(3)
def add_subclassed_hook(model, store):
    store["optimizer"].add_hook(Slow(0.1), "slow")


@change
@at(3)
def add_function_hook(model, store):
    def half(rule, param):
        param.grad *= 0.5

    half.name = "half"
    half.call_for_each_param = True
    half.timing = "pre"
    store["optimizer"].add_hook(half)


@change
def hook_on_and_off(model, i, store):
    if i == 3:
        store["optimizer"].add_hook(chainer.optimizer_hooks.GradientClipping(0.1), "clip")
    if i == 6:
        store["optimizer"].remove_hook("clip")


@change
def hook_strength(model, i, store):
    if i == 0:
        store["hook"] = chainer.optimizer_hooks.WeightDecay(0.0)
        store["optimizer"].add_hook(store["hook"])
    store["hook"].rate = 0.05 * i


@change
def learning_rate(model, i, store):
    store["optimizer"].hyperparam.lr = 0.1 / (1 + i)


@change
def learning_rate_of_one(model, i, store):
    head(model).W.update_rule.hyperparam.lr = 0.01 * i


@change
@at(3)
def rule_of_one_replaced(model, store):
    rule = chainer.optimizers.Adam().create_update_rule()
    head(model).W.update_rule = rule


@change
@at(3)
def rule_hook_of_one(model, store):
    def shrink(rule, param):
        param.array *= 0.9

    head(model).W.update_rule.add_hook(shrink, name="shrink", timing="post")


@change
@at(3)
def rule_none(model, store):
    head(model).b.update_rule = None


@change
@at(2, 5)
def gradients_noted(model, store):
    store["run"].see("grads", [p.grad for p in model.params()])


@change
@at(3)
def name_scope_changed(model, store):
    head(model).name = "renamed"


@change
@at(3)
def link_hook_added(model, store):
    head(model).add_hook(chainer.link_hooks.TimerHook()) if False else None
    chainer.link_hooks.SpectralNormalization().added  # noqa: B018


@change
@at(3)
def train_flag_left_off(model, store):
    chainer.config.train = False


@change
@at(3)
def sys_random_touched(model, store):
    np.random.rand(5)


for _f in BETWEEN:
    globals()[f"p_between_{_f.__name__}"] = between(_f)

# Only what a whole step might miss.
for _f in (
    freeze,
    freeze_every_other,
    array_replaced,
    array_in_place,
    new_parameter_with_rule,
    new_link,
    wider_link,
    nobias,
    clip_weights,
    moving_average_swapped_in,
    npz_round_trip,
    npz_optimizer_round_trip,
    deepcopied,
    pickled,
    copied_share,
    add_hook,
    add_function_hook,
    hook_on_and_off,
    hook_strength,
    learning_rate_of_one,
    rule_of_one_replaced,
    rule_hook_of_one,
    rule_none,
    param_arrays_kept,
    grads_kept,
    one_block_for_all,
    fortran_order,
    slice_of_a_larger,
):
    globals()[f"p_whole_{_f.__name__}"] = whole(_f, rule="Adam" if "npz" in _f.__name__ else "SGD")


def inside(body, make=Plain, rounds=7, **attributes):
    """The static forward touches parameters itself."""

    def program(run):
        class Model(make):
            forward = run.static(body)

        model = Model()
        for name, value in attributes.items():
            setattr(model, name, value)
        optimizer = chainer.optimizers.SGD().setup(model)
        for i in range(rounds):
            y = model(run.array(5, 4))
            model.cleargrads()
            F.sum(y * y).backward()
            optimizer.update()
            run.see("y", i, y, model)

    return program


def _l2_of_params(self, x):
    return F.mean(self.net(x)) + 0.01 * sum(F.sum(p**2) for p in self.params())


def _l2_of_weights_only(self, x):
    return F.mean(self.net(x)) + 0.01 * sum(
        F.sum(p**2) for n, p in self.namedparams() if n.endswith("W")
    )


def _l2_numpy(self, x):
    return self.net(x) + 0.1 * sum(float((p.array**2).sum()) for p in self.params())


def _l2_numpy_array(self, x):
    return self.net(x) + 0.1 * sum((p.array**2).sum() for p in self.params())


def _concat_params(self, x):
    return F.sum(self.net(x)) + F.max(F.concat([p.reshape(-1) for p in self.params()], axis=0))


def _elastic(self, x):
    if not hasattr(self, "anchor"):
        self.anchor = [p.array.copy() for p in self.params()]
    return F.sum(self.net(x)) + sum(
        F.sum((p - a) ** 2) for p, a in zip(self.params(), self.anchor, strict=True)
    )


def _reset_inside(self, x):
    y = self.net(x)
    self.l2.b.array[...] = 0
    return y


def _assign_inside(self, x):
    self.l2.b.array = self.l2.b.array * 0.5
    return self.net(x)


def _detached_weight(self, x):
    return F.linear(x, self.l1.W.array, self.l1.b)


def _stop_gradient_scale(self, x):
    return F.linear(x, self.l1.W / abs(self.l1.W.array).max(), self.l1.b)


def _swap_for_mean(self, x):
    old = self.l1.W.array
    self.l1.W.array = old * 0.9
    y = self.net(x)
    self.l1.W.array = old
    return y


def _fast_weights(self, x):
    y = F.sum(self.net(x) ** 2)
    grads = chainer.grad([y], [self.l1.W, self.l2.W])
    w1, w2 = (p - 0.1 * g for p, g in zip((self.l1.W, self.l2.W), grads, strict=True))
    return F.linear(F.tanh(F.linear(x, w1, self.l1.b)), w2, self.l2.b)


def _fast_weights_second(self, x):
    y = F.sum(self.net(x) ** 2)
    (g,) = chainer.grad([y], [self.l1.W], enable_double_backprop=True)
    return self.l2(F.tanh(F.linear(x, self.l1.W - 0.1 * g, self.l1.b)))


def _gradient_norm(self, x):
    v = chainer.Variable(x)
    (g,) = chainer.grad([F.sum(self.net(v))], [v], enable_double_backprop=True)
    return F.sum(g**2)


def _gradient_sign_attack(self, x):
    v = chainer.Variable(x)
    (g,) = chainer.grad([F.sum(self.net(v) ** 2)], [v])
    return self.net(x + 0.1 * np.sign(g.array))


def _freeze_inside(self, x):
    self.l1.disable_update()
    return self.net(x)


def _set_grad_inside(self, x):
    y = self.net(x)
    self.l2.b.grad = np.ones(3, "f")
    return y


def _cleargrads_inside(self, x):
    self.cleargrads()
    return self.net(x)


def _count_zero_weights(self, x):
    return self.net(x) * (1 + int((self.l1.W.array > 0).sum()))


def _weights_hash(self, x):
    return self.net(x) * (1 + self.l1.W.array.tobytes()[0] % 3)


def _update_called(self, x):
    return self.net(x) * (1 + self.l1.W.update_rule.t if self.l1.W.update_rule else 1)


def _params_copied(self, x):
    self.saved = [p.array.copy() for p in self.params()]
    return self.net(x)


def _grad_read(self, x):
    g = self.l2.b.grad
    return self.net(x) * (1.0 if g is None else float(abs(g).max()))


def _copied_head(self, x):
    return copy.deepcopy(self.l2)(F.tanh(self.l1(x)))


def _fresh_link(self, x):
    return self.net(x) + L.Linear(4, 3, initialW=0.1)(x)


def _fresh_parameter(self, x):
    return self.net(x) * chainer.Parameter(np.full(3, 2, "f"))


def _kept_parameter_list(self, x):
    if not hasattr(self, "extra"):
        self.extra = [chainer.Parameter(np.ones(3, "f"))]
    return self.net(x) * F.broadcast_to(self.extra[0], (len(x), 3))


for _f in (
    _l2_of_params,
    _l2_of_weights_only,
    _l2_numpy,
    _l2_numpy_array,
    _concat_params,
    _elastic,
    _reset_inside,
    _assign_inside,
    _detached_weight,
    _stop_gradient_scale,
    _swap_for_mean,
    _fast_weights,
    _fast_weights_second,
    _gradient_norm,
    _gradient_sign_attack,
    _freeze_inside,
    _set_grad_inside,
    _cleargrads_inside,
    _count_zero_weights,
    _weights_hash,
    _update_called,
    _params_copied,
    _grad_read,
    _copied_head,
    _fresh_link,
    _fresh_parameter,
    _kept_parameter_list,
):
    globals()[f"p_inside{_f.__name__}"] = inside(_f)


def p_bn_statistics_reset(run):
    model = run.static(WithNorm())
    for i in range(8):
        if i == 3:
            model.bn.avg_mean[...] = 0
        if i == 5:
            model.bn.avg_var = np.ones(8, "f")
        if i == 6:
            model.bn.decay = 0.5
        run.see("y", model(run.array(5, 4)), model)


def p_bn_statistics_copied_to_test_net(run):
    model, test = run.static(WithNorm()), run.static(WithNorm())
    for _ in range(5):
        model(run.array(5, 4))
        test.copyparams(model)
        with chainer.using_config("train", False):
            run.see("y", test(run.array(5, 4)), test)


def p_bn_gamma_frozen(run):
    model = run.static(WithNorm())
    optimizer = run.optimizer(chainer.optimizers.SGD()).setup(model)
    model.bn.gamma.update_rule.enabled = False
    for i in range(6):
        y = model(run.array(5, 4))
        model.cleargrads()
        F.sum(y**2).backward()
        optimizer.update()
        if i == 3:
            model.bn.gamma.update_rule.enabled = True
        run.see("model", model)


def p_bn_eps_and_flags(run):
    model = run.static(WithNorm())
    for i in range(8):
        model.bn.eps = 1e-2 if i > 3 else 2e-5
        with chainer.using_config("train", i % 4 != 3):
            run.see("y", model(run.array(5, 4)), model)


def p_bn_finetune(run):
    class Tuned(Normed):
        def forward(self, x, finetune):
            return self.l2(self.bn(self.l1(x), finetune=finetune))

    model = run.static(Tuned())
    for i in range(9):
        if i == 4:
            model.bn.start_finetuning()
        run.see("y", model(run.array(5, 4), i >= 4), model)


def p_lstm_forget_bias_set(run):
    class Model(Recurrent):
        def forward(self, x):
            return self.out(self.lstm(x))

    model = run.static(Model())
    for i in range(6):
        if i == 3:
            model.lstm.upward.b.array[5:10] = 2
        run.see("y", model(run.array(2, 4)), model.lstm.h)


def p_layerwise_training(run):
    class Model(Net):
        @run.static
        def forward(self, x, depth):
            h = self.l1(x)
            return self.l2(F.tanh(h)) if depth == 2 else h

    model = Model()
    optimizer = chainer.optimizers.SGD().setup(model)
    for i in range(8):
        model.l1.enable_update() if i < 4 else model.l1.disable_update()
        y = model(run.array(5, 4), 1 + i // 4)
        model.cleargrads()
        F.sum(y * y).backward()
        optimizer.update()
        run.see("model", y, model)


def p_lookahead(run):
    model = run.static(Plain())
    optimizer = run.optimizer(chainer.optimizers.Adam()).setup(model)
    slow = [p.array.copy() for p in model.params()]
    for i in range(9):
        optimizer.update(lambda: F.sum(model(run.array(5, 4)) ** 2))
        if i % 3 == 2:
            for s, p in zip(slow, model.params(), strict=True):
                s += 0.5 * (p.array - s)
                p.array[...] = s
        run.see("model", model)


def p_sharpness_aware(run):
    model = run.static(L.Classifier(Plain()))
    optimizer = chainer.optimizers.SGD(0.1).setup(model)
    for _ in range(6):
        x, t = run.array(5, 4), run.labels(5, 3)
        model.cleargrads()
        model(x, t).backward()
        steps = [0.05 * p.grad / (np.linalg.norm(p.grad) + 1e-6) for p in model.params()]
        for p, e in zip(model.params(), steps, strict=True):
            p.array += e
        model.cleargrads()
        model(x, t).backward()
        for p, e in zip(model.params(), steps, strict=True):
            p.array -= e
        optimizer.update()
        run.see("model", model)


def p_reptile(run):
    model = Plain()
    fast = run.static(model.copy("copy"))
    optimizer = chainer.optimizers.SGD(0.1).setup(fast)
    for _ in range(4):
        fast.copyparams(model)
        for _ in range(3):
            optimizer.update(lambda: F.mean(fast(run.array(5, 4)) ** 2))
        for p, q in zip(model.params(), fast.params(), strict=True):
            p.array += 0.5 * (q.array - p.array)
        run.see("model", model, fast)


def p_snapshot_ensemble(run):
    model = run.static(Plain())
    optimizer = chainer.optimizers.SGD(0.1).setup(model)
    snapshots = []
    for i in range(6):
        optimizer.update(lambda: F.mean(model(run.array(5, 4)) ** 2))
        if i % 2:
            snapshots.append(model.copy("copy"))
    x = run.array(3, 4)
    for _ in range(3):
        run.see("mean", sum(m(x).array for m in snapshots) / len(snapshots))


def p_parameters_shared_by_two_models(run):
    a, b = Plain(), Plain()
    b.l1 = a.l1
    a, b = run.static(a), run.static(b)
    ra, rb = chainer.optimizers.SGD(0.1).setup(a), chainer.optimizers.SGD(0.1).setup(b)
    for i in range(8):
        a.cleargrads()
        b.cleargrads()
        (F.sum(a(run.array(3, 4)) ** 2) + F.sum(b(run.array(3, 4)) ** 2)).backward()
        (ra if i % 2 else rb).update()
        run.see("both", a, b)


def p_pickled_sequential(run):
    model = run.static(chainer.Sequential(L.Linear(4, 8), F.tanh, L.Linear(8, 3)))
    for i in range(8):
        if i % 3 == 2:
            model = pickle.loads(pickle.dumps(model))
        y = model(run.array(5, 4))
        model.cleargrads()
        F.sum(y * y).backward()
        run.see("y", y, model)
