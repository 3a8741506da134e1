"""The pytest plugin: Chainer's gradient checks are judged first, then made as ever."""

from __future__ import annotations

from chainer import gradient_check

from tests.conformance import decorators
from tests.conformance.judge import EXCEPTION, UNUSABLE, judge
from tests.conformance.outcomes import Outcomes
from tests.conformance.step import judge_steps

#: Checks that no replay can pass: file, kind, reason.
OUT_OF_REACH = {
    ("test_zoneout.py", "double"): "the function under test replaces numpy.random.rand by a mock",
}


class Judging(Outcomes):
    """Replaces the gradient checks and writes one line of JSON for each.

    Parameters
    ----------
    log : file
    decorator : str
        See :func:`tests.conformance.decorators.by_name`.
    more : bool
        Whether every first-order check is judged as a whole step and in test mode as well.
    """

    def __init__(self, log, decorator: str, more: bool = False):
        super().__init__(log)
        self.decorator = decorator
        self.more = more
        self._doubles = 0
        self._check = gradient_check.check_backward
        self._check_immutable = gradient_check._check_backward_with_params
        self._check_double = gradient_check.check_double_backward

    def pytest_configure(self, config):
        gradient_check.check_backward = self.check_backward
        gradient_check._check_backward_with_params = self.check_backward_with_params
        gradient_check.check_double_backward = self.check_double_backward

    def pytest_unconfigure(self, config):
        gradient_check.check_backward = self._check
        gradient_check._check_backward_with_params = self._check_immutable
        gradient_check.check_double_backward = self._check_double

    # --- in the place of chainer.gradient_check --------------------------------------------
    def check_backward(self, func, x_data, y_grad, params=(), *args, **kwargs):
        if not self._doubles:  # a check of second derivatives makes one of its own gradients
            self._judge("backward", func, x_data, y_grad, params, False)
        return self._original(self._check, func, x_data, y_grad, params, *args, **kwargs)

    def check_backward_with_params(self, func, x_data, y_grad, params=(), *args, **kwargs):
        self._judge("backward", func, x_data, y_grad, params, True)
        return self._original(self._check_immutable, func, x_data, y_grad, params, *args, **kwargs)

    def check_double_backward(
        self, func, x_data, y_grad, x_grad_grad, params=(), params_grad_grad=(), *args, **kwargs
    ):
        ggs = [*_tuple(x_grad_grad), *_tuple(params_grad_grad)]
        self._judge("double", func, x_data, y_grad, params, False, ggs)
        self._doubles += 1
        try:
            return self._original(
                self._check_double, func, x_data, y_grad, x_grad_grad, params, params_grad_grad,
                *args, **kwargs,
            )  # fmt: skip
        finally:
            self._doubles -= 1

    def _judge(self, kind, func, xs, gys, params, immutable, ggs=()):
        file = self.test.partition("::")[0].rpartition("/")[2]
        reason = OUT_OF_REACH.get((file, kind))
        if reason is not None:
            self.write(test=self.test, kind=kind, verdict=UNUSABLE, detail=reason)
            return
        options = {"enable_double_backprop": True} if kind == "double" else {}
        decorator = decorators.by_name(self.decorator, **options)
        xs, params = _tuple(xs), _tuple(params)
        try:
            gys = None if gys is None else _tuple(gys)
            found = judge(func, xs, gys, params, immutable, decorator, ggs)
        except Exception as error:
            self.write(test=self.test, kind=kind, verdict=EXCEPTION, detail=f"judge: {error!r}")
            return
        self.write(test=self.test, kind=kind, **vars(found))
        if self.more and kind == "backward":
            decorator = decorators.by_name(self.decorator)
            found = judge_steps(func, xs, gys, params, immutable, decorator)
            self.write(test=self.test, kind="step", **vars(found))
            decorator = decorators.by_name(self.decorator)
            found = judge(func, xs, gys, params, immutable, decorator, inference=True)
            self.write(test=self.test, kind="inference", **vars(found))

    def _original(self, check, *args, **kwargs):
        try:
            return check(*args, **kwargs)
        except gradient_check.NondifferentiableError:
            self.write(test=self.test, repeated=True)  # the test tries again with other data
            raise


def _tuple(x) -> tuple:
    return tuple(x) if isinstance(x, (list, tuple)) else (x,)
