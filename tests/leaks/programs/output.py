"""What a call prints, writes, asks the system, and where it runs."""

import contextlib
import io
import json
import logging
import os
import sys
import tempfile
import threading
import traceback
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import sdbr

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np

LINES = []
JOURNAL = io.StringIO()
FOLDER = Path(tempfile.mkdtemp())
log = logging.getLogger("programs.output")
log.propagate = False
log.setLevel(logging.INFO)


class Keeping(logging.Handler):
    def emit(self, record):
        LINES.append(self.format(record))


log.addHandler(Keeping())


def rounds(body, seen=lambda: None, before=lambda i: None, n=6):
    """A program that calls `body` as the forward of a layer, and looks at `seen()` each time."""

    def program(run):
        class Model(chainer.Chain):
            def __init__(self):
                super().__init__()
                with self.init_scope():
                    self.layer = L.Linear(4, 3)

            forward = run.static(body)

        model = Model()
        model.layer.W.array[...] = run.array(3, 4)
        for i in range(n):
            before(i)
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                run.see("y", model(run.array(2, 4)))
            run.see("written", out.getvalue(), seen())

    return program


def _shape(self, x):
    h = self.layer(x)
    print("hidden", h.shape)
    return F.relu(h)


def _to_stdout(self, x):
    sys.stdout.write(f"{x.dtype}\n")
    return self.layer(x)


def _journal(self, x):
    JOURNAL.write("step\n")
    return self.layer(x)


def _as_json(self, x):
    json.dump({"rows": len(x)}, JOURNAL)
    return self.layer(x)


def _to_file(self, x):
    with open(FOLDER / "steps.txt", "a") as f:
        f.write("x")
    return self.layer(x)


def _from_file(self, x):
    return self.layer(x) * float((FOLDER / "scale.txt").read_text())


def _exists(self, x):
    return -self.layer(x) if os.path.exists(FOLDER / "flag") else self.layer(x)


def _logs(self, x):
    log.info("a batch of %d", len(x))
    return self.layer(x)


def _logs_too_little(self, x):
    log.debug("nobody sees this")
    return self.layer(x)


def _own_buffer(self, x):
    buffer = io.StringIO()
    buffer.write("scale")
    return self.layer(x) * len(buffer.getvalue())


def _own_traceback(self, x):
    try:
        raise KeyError("no")
    except KeyError:
        text = traceback.format_exc()
    return self.layer(x) * len(text.splitlines()[-1])


class Talking(chainer.FunctionNode):
    def forward(self, inputs):
        print("forward of a node")
        return (inputs[0] * 2,)


def _prints_in_a_node(self, x):
    return Talking().apply((self.layer(x),))[0]


def _warns(self, x):
    warnings.warn("deprecated", DeprecationWarning, stacklevel=2)
    return self.layer(x)


def _scale_of_environment(self, x):
    return self.layer(x) * float(os.environ["PROGRAMS_SCALE"])


def _mode_of_environment(self, x):
    return F.relu(self.layer(x)) if os.getenv("PROGRAMS_MODE") else self.layer(x)


def _puts_into_environment(self, x):
    os.environ["PROGRAMS_ROWS"] = str(len(x))
    return self.layer(x)


def _thread(self, x):
    found = []
    worker = threading.Thread(target=lambda: found.append(x.max() > 1))
    worker.start()
    worker.join(30)
    return -self.layer(x) if found[0] else self.layer(x)


def _name(self, x):
    return self.layer(x) * len(threading.current_thread().name)


def _set_scale(i):
    os.environ["PROGRAMS_SCALE"] = str(1 + i // 3)


def _set_mode(i):
    os.environ.pop("PROGRAMS_MODE", None)
    if i >= 4:
        os.environ["PROGRAMS_MODE"] = "on"


def _write_scale(i):
    (FOLDER / "scale.txt").write_text(str(1 + i // 3))


def _set_flag(i):
    (FOLDER / "flag").unlink(missing_ok=True)
    if i >= 4:
        (FOLDER / "flag").touch()


def _rename(i):
    threading.current_thread().name = "Main" + "Thread" * (1 + i // 3)
    if i == 5:
        threading.current_thread().name = "MainThread"


def _steps():
    path = FOLDER / "steps.txt"
    return len(path.read_text()) if path.exists() else 0


p_print = rounds(_shape)
p_stdout = rounds(_to_stdout)
p_journal = rounds(_journal, JOURNAL.getvalue)
p_json = rounds(_as_json, JOURNAL.getvalue)
p_file = rounds(_to_file, _steps)
p_file_read = rounds(_from_file, before=_write_scale)
p_file_asked_for = rounds(_exists, before=_set_flag)
p_log = rounds(_logs, lambda: list(LINES))
p_log_below_the_level = rounds(_logs_too_little, lambda: list(LINES))
p_buffer_of_its_own = rounds(_own_buffer)
p_traceback_of_its_own = rounds(_own_traceback)
p_print_in_a_node = rounds(_prints_in_a_node)
p_warning = rounds(_warns)
p_environment = rounds(_scale_of_environment, before=_set_scale)
p_environment_absent = rounds(_mode_of_environment, before=_set_mode)
p_environment_set = rounds(
    _puts_into_environment,
    lambda: os.environ.get("PROGRAMS_ROWS"),
    lambda i: os.environ.pop("PROGRAMS_ROWS", None),
)
p_thread = rounds(_thread)
p_thread_name = rounds(_name, before=_rename)


def p_print_in_static_code(run):
    class Model(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.layer = L.Linear(4, 3)

        @run.static
        def forward(self, x):
            self.say()
            return self.layer(x)

        @sdbr.static_code
        def say(self):
            print("every time")

    model = Model()
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        for _ in range(5):
            model(np.ones((2, 4), "f"))
    run.see("written", out.getvalue())


def p_pool(run):
    with ThreadPoolExecutor(1) as pool:
        submit = pool.submit
        submit(int).result()  # its thread runs already

        @run.static
        def call(x):
            return F.relu(x) * submit(lambda: float(abs(x).max())).result(30)

        for _ in range(4):
            run.see("y", call(run.array(2, 3)))
