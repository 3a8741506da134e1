"""``python -m sdbr run``: the script sees the interpreter it would see without it."""

import os
import re
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from tests.tolerances import ROUNDINGS


def run(*arguments, folder=None):
    command = [sys.executable, "-W", "error", "-m", "sdbr", "run", *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=folder, timeout=300
    )


@pytest.fixture
def script(tmp_path):
    def write(text, name="script.py"):
        path = tmp_path / "scripts" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path

    return write


def test_script_is_main_with_its_arguments_and_its_folder_first(script, tmp_path):
    script("WORD = 'from the neighbour'", "neighbour.py")
    path = script(
        """
        import sys
        import chainer
        import neighbour
        print(__name__, chainer.__version__, neighbour.WORD)
        print(__file__ == sys.argv[0], sys.argv[1:], sys.path[0])
        """
    )
    done = run(path, "--static", "-h", "7", folder=tmp_path)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "__main__ 7.8.1 from the neighbour",
        f"True ['--static', '-h', '7'] {os.path.realpath(path.parent)}",
    ]
    assert done.returncode == 0


@pytest.mark.parametrize(("flags", "owner"), [((), "chainer"), (("--static",), "sdbr")])
def test_whose_decorators_the_script_gets(script, flags, owner):
    path = script(
        """
        import chainer
        from chainer import static_code, static_graph
        from chainer.graph_optimizations import static_code as second_code
        from chainer.graph_optimizations.static_graph import static_graph as second_graph
        from chainer.graph_optimizations.static_graph_utilities import static_code as third_code
        assert chainer.static_graph is static_graph is second_graph
        assert chainer.static_code is static_code is second_code is third_code
        print(static_graph.__module__.split(".")[0], static_code.__module__.split(".")[0])
        """
    )
    done = run(*flags, path)
    assert done.stdout == f"{owner} {owner}\n", done.stderr


def test_static_chain_in_an_old_script_is_replayed(script):
    path = script(
        """
        import chainer, chainer.functions as F, chainer.links as L, numpy as np

        class Net(chainer.Chain):
            def __init__(self):
                super().__init__()
                with self.init_scope():
                    self.l1 = L.Linear(3, 2)

            @chainer.static_graph
            def __call__(self, x):
                return F.relu(self.l1(x))

        net = Net()
        for k in range(4):
            net.cleargrads()
            F.sum(net(np.full((2, 3), k, np.float32))).backward()
        print(net.schedule_manager.statistics.replays)
        """
    )
    done = run("--static", path)
    assert done.stdout == "3\n", done.stderr


def test_the_script_decides_the_exit_code(script):
    assert run(script("import sys; sys.exit(5)")).returncode == 5


def test_an_exception_in_the_script_shows_its_line(script):
    done = run(script("def broken():\n    raise KeyError('here')\n\nbroken()\n"))
    assert done.returncode == 1
    assert "script.py" in done.stderr
    assert "KeyError: 'here'" in done.stderr


def test_missing_script_is_one_line(tmp_path):
    missing = tmp_path / "nothing.py"
    done = run(missing)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == f"sdbr run: no such script: {missing}\n"


def test_no_script_names_the_usage():
    done = run()
    assert done.returncode == 2
    assert "SCRIPT" in done.stderr


def test_static_code_in_an_old_script_runs_in_every_call(script):
    path = script(
        """
        import numpy as np
        import chainer
        import chainer.links as L
        from chainer import static_code, static_graph

        class Net(chainer.Chain):
            def __init__(self):
                super().__init__()
                with self.init_scope():
                    self.l = L.Linear(3, 2)
                self.calls = 0

            @static_code
            def count(self):
                self.calls += 1

            @static_graph
            def __call__(self, x):
                self.count()
                return self.l(x)

        net = Net()
        for k in range(5):
            net(np.full((2, 3), k, np.float32))
        print(net.calls, net.schedule_manager.statistics.replays)
        """
    )
    done = run("--static", path)
    assert done.stdout == "5 4\n", done.stderr


TRAINED = """
    import sys
    import numpy as np
    import chainer
    import chainer.functions as F
    import chainer.links as L

    class Net(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.a, self.b = L.Linear(5, 8), L.Linear(8, 3)

        def {name}(self, x, t):
            return F.softmax_cross_entropy(self.b(F.tanh(self.a(x))), t)

    def main():
        np.random.seed(0)
        net = Net()
        optimizer = chainer.optimizers.{optimizer}()
        optimizer.setup(net)
        for _ in range(30):
            x = np.random.rand(6, 5).astype("f")
            t = np.random.randint(0, 3, 6).astype("i")
            {step}
        print(float(net(x, t).array if "{name}" == "forward" else net.loss(x, t).array))

    main()
"""

STEPS = {
    "link": "optimizer.update(net, x, t)",
    "method": "optimizer.update(net.loss, x, t)",
    "function": "optimizer.update(loss_of, net, x, t)",
    "lambda": "optimizer.update(lambda: net(x, t))",
    "by hand": "loss = net(x, t); net.cleargrads(); loss.backward(); optimizer.update()",
}


def trained(script, step, optimizer="Adam"):
    """A script that is not decorated; one of its ways to train."""
    name = "loss" if step == "method" else "forward"
    text = textwrap.dedent(TRAINED).format(name=name, optimizer=optimizer, step=STEPS[step])
    return script(
        text + "\n"
        if step != "function"
        else text.replace("def main", "def loss_of(net, x, t):\n    return net(x, t)\n\ndef main")
    )


@pytest.mark.parametrize("step", list(STEPS))
def test_auto_makes_scripts_static_without_an_edit(script, step):
    """The same numbers, and steps that are whole where they are one call."""
    path = trained(script, step)
    plain, auto = run(path), run("--auto", "--explain", path)
    assert (plain.returncode, auto.returncode) == (0, 0), auto.stderr
    assert plain.stderr == ""
    np.testing.assert_allclose(float(auto.stdout), float(plain.stdout), rtol=ROUNDINGS)
    counts = re.findall(r"replays (\d+) \(whole steps (\d+)\), traces 1,", auto.stderr)
    replays, steps = max((int(replays), int(steps)) for replays, steps in counts)
    assert replays >= 29, auto.stderr
    assert step in ("lambda", "by hand") or steps >= 28, auto.stderr
    assert "native: adam x 4" in auto.stderr
    assert "not made static" not in auto.stderr


def test_auto_says_what_it_cannot_make_static(script):
    text = textwrap.dedent("""
        import chainer, numpy as np
        import chainer.functions as F, chainer.links as L

        chain = chainer.Chain()
        with chain.init_scope():
            chain.l = L.Linear(3, 2)
        optimizer = chainer.optimizers.SGD().setup(chain)
        for _ in range(3):
            chain.cleargrads()
            F.sum(chain.l(np.ones((2, 3), "f"))).backward()
            optimizer.update()
    """)
    done = run("--auto", "--explain", script(text))
    assert done.returncode == 0
    assert "not made static: Chain has neither forward nor __call__" in done.stderr
    assert "native: sgd x 2" in done.stderr


@pytest.mark.parametrize("flag", ["--static", "--explain"])
def test_nothing_was_decorated(script, flag):
    done = run(flag, trained(script, "link"))
    assert done.returncode == 0
    assert "nothing was decorated" in done.stderr
    line = 1 + next(i for i, x in enumerate(TRAINED.splitlines()) if "setup" in x)
    assert f"Below script.py:{line} write\n" in done.stderr
    assert "    sdbr.static_graph(net)\n    sdbr.static_optimizer(optimizer)\n" in done.stderr
    assert "--auto" in done.stderr


def test_nothing_was_decorated_nor_set_up(script):
    done = run("--explain", script("import chainer"))
    assert "No optimizer was set up, either" in done.stderr


def test_what_was_decorated_is_explained(script):
    """Also what nobody holds any more."""
    text = textwrap.dedent("""
        import chainer, numpy as np

        @chainer.static_graph
        def twice(x):
            return x * 2

        class Net(chainer.Chain):
            @chainer.static_graph
            def forward(self, x):
                return x + 1

        def main():
            net = Net()
            for _ in range(5):
                twice(net(np.ones(3, "f")))

        main()
        raise SystemExit(3)
    """)
    done = run("--static", "--explain", script(text))
    assert done.returncode == 3
    assert "twice\n  calls 5: replays 4" in done.stderr
    assert "Net.forward\n  calls 5: replays 4" in done.stderr
    assert "nothing was decorated" not in done.stderr


def test_profile(script):
    done = run("--auto", "--profile", trained(script, "link"))
    assert done.returncode == 0, done.stderr
    assert re.search(r"step: \d+ runs, \d+ ops", done.stderr)
    assert "softmax_cross_entropy " in done.stderr and "script.py" in done.stderr


def test_after_an_error_there_is_a_report(script):
    path = script(trained(script, "link").read_text() + "\nraise KeyError('here')\n")
    done = run("--auto", "--explain", path)
    assert done.returncode == 1
    assert "Net.forward\n  calls 31" in done.stderr and "KeyError: 'here'" in done.stderr


PACKAGE = {
    "__init__.py": "",
    "net.py": "WORD = 'from the package'",
    "train.py": """
        import sys
        import chainer
        from .net import WORD
        print(__name__, __package__, WORD, sys.argv[1:], sys.modules["__main__"].__package__)
    """,
    "broken.py": "import nothing_of_this_name",
}


@pytest.fixture
def package(tmp_path):
    (tmp_path / "package").mkdir()
    for name, text in PACKAGE.items():
        (tmp_path / "package" / name).write_text(textwrap.dedent(text))
    return tmp_path


def test_a_module(package):
    done = run("--auto", "-m", "package.train", "--auto", "-m", "7", folder=package)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "__main__ package from the package ['--auto', '-m', '7'] package\n"
    (package / "package" / "__main__.py").write_text("from . import train")
    done = run("-m", "package", folder=package)
    assert done.stdout == "package.train package from the package [] package\n", done.stderr


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("-m", "package"), "a package without a __main__: package"),
        (("-m", "package.nothing"), "no such module: package.nothing"),
        (("-m", "nothing.train"), "no such module: nothing.train"),
        (("-m", "package.net.train"), "no such module: package.net.train"),
        (("-m", "package/train.py"), "no such module: package/train.py"),
        (("-m", ".train"), "no such module: .train"),
        (("package",), "a folder, not a script: package"),
    ],
)
def test_what_is_no_module(package, arguments, text):
    done = run(*arguments, folder=package)
    assert done.returncode == 2
    assert done.stderr.startswith(f"sdbr run: {text}") and done.stderr.count("\n") == 1


def test_an_error_in_a_module_is_its_own(package):
    done = run("-m", "package.broken", folder=package)
    assert done.returncode == 1
    assert "No module named 'nothing_of_this_name'" in done.stderr and "broken.py" in done.stderr


def test_what_is_missing_is_the_script():
    assert "the following arguments are required: SCRIPT\n" in run("--auto").stderr


def test_nothing_to_profile(script):
    done = run("--profile", script("import chainer"))
    assert "sdbr run: nothing was replayed; sdbr run --explain says why\n" in done.stderr


def test_which_optimizer_a_report_is_about(script):
    path = trained(script, "link")
    line = 1 + next(i for i, x in enumerate(path.read_text().splitlines()) if "setup" in x)
    done = run("--auto", "--explain", path)
    assert f"optimizer of net, set up at script.py:{line}:\nAdam: backend" in done.stderr
