"""``python -m sdbr run``: the script sees the interpreter it would see without it."""

import os
import subprocess
import sys
import textwrap

import pytest


def run(*arguments, folder=None):
    command = [sys.executable, "-W", "error", "-m", "sdbr", "run", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)


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
