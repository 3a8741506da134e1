"""Adversarial training, and other loops with several models and optimizers."""

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np

STEP = 0
POOL = []


class Generator(chainer.Chain):
    def __init__(self, norm=False):
        super().__init__()
        with self.init_scope():
            self.l1 = L.Linear(3, 8, nobias=norm)
            self.bn = L.BatchNormalization(8) if norm else F.identity
            self.l2 = L.Linear(8, 4)

    def make_hidden(self, n):
        return np.random.uniform(-1, 1, (n, 3)).astype("f")

    def forward(self, z):
        return F.tanh(self.l2(F.relu(self.bn(self.l1(z)))))


class Critic(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l1 = L.Linear(4, 8)
            self.l2 = L.Linear(8, 1)

    def features(self, x):
        return F.leaky_relu(self.l1(x))

    def forward(self, x):
        return self.l2(self.features(x))


def loop(step, static=("gen", "dis"), rounds=7, norm=False, rule="SGD"):
    """`step(run, gen, dis, opt_gen, opt_dis, x)` with what `static` names static."""

    def program(run):
        gen, dis = Generator(norm), Critic()
        gen = run.static(gen) if "gen" in static else gen
        dis = run.static(dis) if "dis" in static else dis
        make = getattr(chainer.optimizers, rule)
        wrap = run.optimizer if "rules" in static else lambda o: o
        opt_gen, opt_dis = wrap(make()).setup(gen), wrap(make()).setup(dis)
        for i in range(rounds):
            x = run.array(3 if i == 4 else 5, 4)
            step(run, gen, dis, opt_gen, opt_dis, x)
            run.see("models", gen, dis)

    return program


def _usual(run, gen, dis, og, od, x):
    y_real = dis(x)
    fake = gen(gen.make_hidden(len(x)))
    y_fake = dis(fake)
    loss_dis = F.mean(F.softplus(-y_real)) + F.mean(F.softplus(y_fake))
    loss_gen = F.mean(F.softplus(-y_fake))
    gen.cleargrads()
    loss_gen.backward()
    og.update()
    fake.unchain_backward()
    dis.cleargrads()
    loss_dis.backward()
    od.update()
    run.see("losses", loss_gen, loss_dis)


def _update_with_lossfun(run, gen, dis, og, od, x):
    y_real, fake = dis(x), gen(gen.make_hidden(len(x)))
    y_fake = dis(fake)
    od.update(lambda: F.mean(F.softplus(-y_real)) + F.mean(F.softplus(y_fake)))
    og.update(lambda: F.mean(F.softplus(-y_fake)))


def _detached(run, gen, dis, og, od, x):
    fake = gen(gen.make_hidden(len(x)))
    dis.cleargrads()
    (F.mean(F.softplus(-dis(x))) + F.mean(F.softplus(dis(fake.array)))).backward()
    od.update()
    gen.cleargrads()
    F.mean(F.softplus(-dis(fake))).backward()
    og.update()


def _no_backprop_fake(run, gen, dis, og, od, x):
    with chainer.no_backprop_mode():
        fake = gen(gen.make_hidden(len(x)))
    dis.cleargrads()
    (F.mean(dis(fake)) - F.mean(dis(x))).backward()
    od.update()


def _weight_clipping(run, gen, dis, og, od, x):
    for _ in range(2):
        fake = gen(gen.make_hidden(len(x)))
        fake.unchain_backward()
        dis.cleargrads()
        (F.mean(dis(fake)) - F.mean(dis(x))).backward()
        od.update()
        for p in dis.params():
            p.array[...] = np.clip(p.array, -0.05, 0.05)
    gen.cleargrads()
    (-F.mean(dis(gen(gen.make_hidden(len(x)))))).backward()
    og.update()


def _least_squares_labels(run, gen, dis, og, od, x):
    fake = gen(gen.make_hidden(len(x)))
    real_label = np.random.uniform(0.8, 1.2, (len(x), 1)).astype("f")
    dis.cleargrads()
    value = F.mean_squared_error(dis(x), real_label) + F.mean(dis(fake) ** 2)
    value.backward()
    od.update()
    run.see("value", value)


def _feature_matching(run, gen, dis, og, od, x):
    fake = gen(gen.make_hidden(len(x)))
    f = F.mean(dis.features(fake), axis=0)
    with chainer.no_backprop_mode():
        r = F.mean(dis.features(chainer.Variable(x)), axis=0)
    gen.cleargrads()
    F.sum((f - r.array) ** 2).backward()
    og.update()


def _train_whom_by_loss(run, gen, dis, og, od, x):
    fake = gen(gen.make_hidden(len(x)))
    loss_dis = F.mean(F.softplus(-dis(x))) + F.mean(F.softplus(dis(fake)))
    gen.cleargrads()
    dis.cleargrads()
    if float(loss_dis.array) > 1.39:
        loss_dis.backward()
        od.update()
    else:
        F.mean(F.softplus(-dis(fake))).backward()
        og.update()


def _gradient_penalty_plain(run, gen, dis, og, od, x):
    fake = gen(gen.make_hidden(len(x)))
    mix = np.random.rand(len(x), 1).astype("f")
    v = chainer.Variable(mix * x + (1 - mix) * fake.array)
    (g,) = chainer.grad([dis(v)], [v], enable_double_backprop=True)
    dis.cleargrads()
    (F.mean((F.sqrt(F.sum(g**2, axis=1)) - 1) ** 2) + F.mean(dis(fake.array) - dis(x))).backward()
    od.update()


def _retained_fake_gradient(run, gen, dis, og, od, x):
    fake = gen(gen.make_hidden(len(x)))
    gen.cleargrads()
    dis.cleargrads()
    F.sum(dis(fake)).backward(retain_grad=True)
    run.see("gradient of fake", fake.grad)
    og.update()


def _interpolations_seen(run, gen, dis, og, od, x):
    z = gen.make_hidden(2)
    with chainer.using_config("train", False), chainer.no_backprop_mode():
        for a in np.linspace(0, 1, 3):
            run.see("between", gen((a * z[:1] + (1 - a) * z[1:]).astype("f")))
    _usual(run, gen, dis, og, od, x)


def _history_pool(run, gen, dis, og, od, x):
    fake = gen(gen.make_hidden(len(x)))
    POOL.append(fake.array)
    old = POOL[np.random.randint(len(POOL))]
    dis.cleargrads()
    (F.mean(dis(old)) - F.mean(dis(x))).backward()
    od.update()
    run.see("pool", POOL[0])


def _gradients_of_both_in_one_backward(run, gen, dis, og, od, x):
    gen.cleargrads()
    dis.cleargrads()
    (F.sum(dis(gen(gen.make_hidden(len(x))))) + F.sum(dis(x))).backward()
    og.update()
    od.update()


def _two_backwards_accumulate(run, gen, dis, og, od, x):
    dis.cleargrads()
    F.mean(dis(x)).backward()
    F.mean(dis(gen(gen.make_hidden(len(x))))).backward()
    od.update()


def _same_noise_twice(run, gen, dis, og, od, x):
    z = gen.make_hidden(len(x))
    a, b = gen(z), gen(z)
    gen.cleargrads()
    F.sum(a * b).backward()
    og.update()
    run.see("ab", a, b)


def _code_recovered(run, gen, dis, og, od, x):
    z = chainer.Variable(gen.make_hidden(len(x)))
    for _ in range(3):
        z.cleargrad()
        F.sum((gen(z) - x) ** 2).backward()
        z = chainer.Variable(z.array - 0.1 * z.grad)
    run.see("z", z)


def _adversarial_examples(run, gen, dis, og, od, x):
    v = chainer.Variable(x)
    F.sum(dis(v)).backward()
    v2 = chainer.Variable(x + 0.1 * np.sign(v.grad))
    dis.cleargrads()
    F.sum(dis(v2)).backward()
    run.see("gradients", v.grad, v2.grad)


STEPS = (
    _usual,
    _update_with_lossfun,
    _detached,
    _no_backprop_fake,
    _weight_clipping,
    _least_squares_labels,
    _feature_matching,
    _train_whom_by_loss,
    _gradient_penalty_plain,
    _retained_fake_gradient,
    _interpolations_seen,
    _history_pool,
    _gradients_of_both_in_one_backward,
    _two_backwards_accumulate,
    _same_noise_twice,
    _code_recovered,
    _adversarial_examples,
)
for _f in STEPS:
    if _f not in (_gradient_penalty_plain,):
        globals()[f"p_both{_f.__name__}"] = loop(_f)
p_static_rules = loop(_usual, ("gen", "dis", "rules"), rule="Adam")
p_static_rules_lossfun = loop(_update_with_lossfun, ("gen", "dis", "rules"))
p_static_generator_only = loop(_usual, ("gen",), norm=True)
p_static_critic_only = loop(_detached, ("dis",), norm=True)
p_penalty_static_generator = loop(_gradient_penalty_plain, ("gen",))
p_norm_moments = loop(_usual, rule="Adam", norm=True)


def p_losses_as_static_functions(run):
    gen, dis = Generator(), Critic()

    @run.static
    def loss_dis(x, z):
        fake = gen(z)
        fake.unchain_backward()
        return F.mean(F.softplus(-dis(x)) + F.softplus(dis(fake)))

    @run.static
    def loss_gen(z):
        return F.mean(F.softplus(-dis(gen(z))))

    og, od = chainer.optimizers.SGD().setup(gen), chainer.optimizers.SGD().setup(dis)
    for _ in range(7):
        od.update(loss_dis, run.array(5, 4), run.array(5, 3))
        dis.cleargrads()
        og.update(loss_gen, run.array(5, 3))
        run.see("models", gen, dis)


def p_latent_drawn_inside(run):
    gen, dis = Generator(True), Critic()

    @run.static
    def loss_gen(n):
        return F.mean(F.softplus(-dis(gen(gen.make_hidden(n)))))

    og = chainer.optimizers.SGD().setup(gen)
    for n in (4, 4, 4, 2, 4, 2):
        og.update(loss_gen, n)
        run.see("gen", gen)


def p_step_count_decides(run):
    gen, dis = Generator(), Critic()

    @run.static
    def loss(x, z):
        global STEP
        STEP += 1
        fake = F.mean(dis(gen(z)))
        return fake if STEP % 2 else fake - F.mean(dis(x))

    rule = chainer.optimizers.SGD().setup(dis)
    for _ in range(8):
        gen.cleargrads()
        rule.update(loss, run.array(4, 4), run.array(4, 3))
        run.see("models", gen, dis)


def p_cycle(run):
    a, b = L.Linear(4, 4), L.Linear(4, 4)
    model = chainer.ChainList(a, b)

    @run.static
    def loss(x, y):
        return F.mean(abs(b(a(x)) - x)) + F.mean(abs(a(b(y)) - y))

    rule = chainer.optimizers.Adam().setup(model)
    for _ in range(6):
        rule.update(loss, run.array(4, 4), run.array(4, 4))
        run.see("model", model)


def p_image_pool_inside(run):
    dis = Critic()

    @run.static
    def loss(fake):
        POOL.append(fake)
        if len(POOL) > 3:
            POOL.pop(0)
        return F.mean(dis(POOL[0]))

    rule = chainer.optimizers.SGD().setup(dis)
    for _ in range(8):
        rule.update(loss, run.array(4, 4))
        run.see("dis", dis)


def p_conditional_labels_joined(run):
    gen = L.Linear(5, 4)

    @run.static
    def make(z, t):
        return F.tanh(gen(F.concat([z, np.eye(2, dtype="f")[t]])))

    for _ in range(6):
        y = make(run.array(3, 3), run.labels(3, 2))
        gen.cleargrads()
        F.sum(y**2).backward()
        run.see("y", y, gen)


def p_minibatch_discrimination(run):
    class Model(Critic):
        @run.static
        def forward(self, x):
            h = self.features(x)
            d = F.sum(abs(h[:, None] - F.broadcast_to(h[None], (len(x), len(x), 8))), axis=2)
            return self.l2(h) + F.sum(F.exp(-d), axis=1, keepdims=True)

    model = Model()
    for n in (4, 4, 3, 4, 3):
        y = model(run.array(n, 4))
        model.cleargrads()
        F.sum(y).backward()
        run.see("y", y, model)


def p_distillation(run):
    teacher, student = Critic(), Critic()

    @run.static
    def loss(x, temperature):
        with chainer.no_backprop_mode(), chainer.using_config("train", False):
            goal = F.sigmoid(teacher(x) / temperature)
        return F.mean_squared_error(F.sigmoid(student(x) / temperature), goal.array)

    rule = chainer.optimizers.SGD().setup(student)
    for i in range(8):
        rule.update(loss, run.array(4, 4), 1.0 + i)
        if i == 4:
            teacher.l2.b.array[...] = 3
        run.see("student", student)


def p_mean_teacher_inside(run):
    teacher, student = Critic(), Critic()

    @run.static
    def loss(x):
        for p, q in zip(teacher.params(), student.params(), strict=True):
            p.array[...] = 0.9 * p.array + 0.1 * q.array
        return F.mean((student(x) - teacher(x).array) ** 2)

    rule = chainer.optimizers.SGD().setup(student)
    for _ in range(7):
        rule.update(loss, run.array(4, 4))
        run.see("both", teacher, student)


def p_siamese(run):
    net = run.static(Critic())
    rule = chainer.optimizers.SGD().setup(net)
    for _ in range(6):
        a, b, same = run.array(4, 4), run.array(4, 4), run.labels(4, 2)
        value = F.contrastive(net(a), net(b), same)
        net.cleargrads()
        value.backward()
        rule.update()
        run.see("net", value, net)


def p_pseudo_labels(run):
    net = run.static(Generator())
    rule = run.optimizer(chainer.optimizers.SGD()).setup(net)
    for _ in range(6):
        x = run.array(6, 3)
        with chainer.using_config("train", False), chainer.no_backprop_mode():
            p = F.softmax(net(x)).array
        sure, t = p.max(1) > 0.28, p.argmax(1).astype("i")
        if sure.any():
            rule.update(lambda x, t: F.softmax_cross_entropy(net(x), t), x[sure], t[sure])
        run.see("net", net)


def p_alternating_losses_by_name(run):
    class Model(Critic):
        def forward(self, x, which):
            return {"a": F.sum, "b": F.mean, "c": F.max}[which](self.l2(self.features(x)) ** 2)

    model = run.static(Model())
    rule = run.optimizer(chainer.optimizers.SGD()).setup(model)
    for which in "abcabbcaab":
        rule.update(model, run.array(4, 4), which)
        run.see("model", model)


def p_autoencoder_tied(run):
    class Tied(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.enc = L.Linear(4, 3)
                self.b = chainer.Parameter(0, 4)

        def forward(self, x):
            return F.mean_squared_error(F.linear(F.sigmoid(self.enc(x)), self.enc.W.T, self.b), x)

    model = run.static(Tied())
    rule = run.optimizer(chainer.optimizers.Adam()).setup(model)
    for _ in range(6):
        rule.update(model, run.array(4, 4))
        run.see("model", model)


def p_style_of_fixed_features(run):
    net = run.static(Critic())
    goal = None
    image = chainer.Parameter(run.array(3, 4))
    for i in range(8):
        y = net(image)
        goal = y.array if i % 3 == 0 else goal
        image.cleargrad()
        net.cleargrads()
        F.sum((y - goal - 1) ** 2).backward()
        image.array -= 0.1 * image.grad
        run.see("image", image, net)
