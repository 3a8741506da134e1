"""The compiled ``using_config`` does what Chainer's own does."""

import sdbr
from sdbr.compat import speed

import chainer
import pytest
from chainer import configuration

from tests.harness.threads import in_threads


@pytest.fixture(params=["compiled", "original"])
def context(request):
    if request.param == "compiled":
        return configuration._ConfigContext
    return speed.REPLACED[0]


def test_it_is_in_place():
    assert type(chainer.using_config("train", False)).__module__ == "sdbr.compat.speed._config"
    assert type(chainer.no_backprop_mode().contexts[0]).__module__ == "sdbr.compat.speed._config"
    assert sdbr.compat.speed.install()
    assert len(speed.REPLACED) == 1


def test_sets_and_restores(context):
    config = chainer.config
    assert "train" not in config._local.__dict__
    with context(config, "train", False):
        assert config.train is False
        with context(config, "train", 3):
            assert config.train == 3
        assert config.train is False
    assert "train" not in config._local.__dict__
    assert config.train is True


def test_restores_a_local_value_and_after_an_error(context):
    config = chainer.config
    config.of_the_test = 1
    try:
        with pytest.raises(KeyError), context(config, "of_the_test", 2):
            assert config.of_the_test == 2
            raise KeyError
        assert config.of_the_test == 1
    finally:
        del config.of_the_test


def test_an_entry_that_was_deleted_inside(context):
    with pytest.raises(AttributeError), context(chainer.config, "of_the_test", 2):
        del chainer.config.of_the_test


def test_threads_have_their_own(context):
    with context(chainer.config, "train", False):
        seen = in_threads(1, lambda _: chainer.config.train)
    assert seen == [True]


def test_other_configurations_and_attributes(context):
    other = configuration.LocalConfig(configuration.GlobalConfig())
    c = context(other, "x", 5)
    with c as entered:
        assert other.x == 5 and entered is None
    assert (c.config, c.name, c.value, c.is_local) == (other, "x", 5, False)
