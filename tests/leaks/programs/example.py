"""How programs look; two that are right."""

import chainer
import chainer.functions as F
import chainer.links as L


class Net(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l1 = L.Linear(4, 8)
            self.l2 = L.Linear(8, 3)

    def forward(self, x):
        return self.l2(F.relu(self.l1(x)))


def p_train_classifier(run):
    model = run.static(L.Classifier(Net()))
    optimizer = run.optimizer(chainer.optimizers.Adam()).setup(model)
    for _ in range(5):
        x, t = run.array(6, 4), run.labels(6, 3)
        run.observe(model, optimizer.update, model, x, t)
        run.see("model", model)


def p_stored_feature(run):
    class Stores(Net):
        @run.static
        def forward(self, x):
            self.h = F.relu(self.l1(x))
            return self.l2(self.h)

    model = Stores()
    for _ in range(5):
        y = model(run.array(6, 4))
        model.cleargrads()
        F.sum(y * y).backward()
        run.see("y and h", y, model.h, model)
