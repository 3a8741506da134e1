"""The pytest plugin that writes down how each test ended; knows nothing of sdbr."""

from __future__ import annotations

import json
import random
import zlib

import numpy as np
import pytest


class Outcomes:
    """Seeds every test by its name and writes one line of JSON when it has ended.

    Parameters
    ----------
    log : file
    """

    def __init__(self, log):
        self.log = log
        self.test = ""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item):
        self.test = item.nodeid
        seed = zlib.crc32(item.nodeid.encode())
        np.random.seed(seed)
        random.seed(seed)

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.outcome != "passed":
            message = "" if report.outcome == "passed" else str(report.longrepr)[-1500:]
            self.write(test=report.nodeid, outcome=report.outcome, message=message)

    def pytest_collectreport(self, report):
        if report.outcome == "failed":
            self.write(test=report.nodeid, outcome="failed", message=str(report.longrepr)[-1500:])

    def write(self, **entry):
        self.log.write(json.dumps(entry) + "\n")
        self.log.flush()
