"""Prints what an extra of the installed package requires, a line each; its name is the argument."""

import sys
from importlib.metadata import requires

from packaging.requirements import Requirement

for line in requires("sdbr") or ():
    requirement = Requirement(line)
    marker, requirement.marker = requirement.marker, None
    if marker and marker.evaluate({"extra": sys.argv[1]}) and not marker.evaluate({"extra": ""}):
        print(requirement)
