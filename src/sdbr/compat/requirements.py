"""The part of pkg_resources that chainer.testing uses, over importlib.metadata."""

from __future__ import annotations

from importlib import metadata


class ResolutionError(Exception):
    """A requirement is not satisfied by what is installed."""


class WorkingSet:
    """The installed distributions."""

    def require(self, *requirements: str) -> None:
        """Check that every requirement is satisfied.

        Parameters
        ----------
        *requirements : str
            Requirement specifiers (PEP 508), such as ``'numpy>=1.20'``.

        Raises
        ------
        ResolutionError
            If a distribution is missing or has another version.
        """
        # Only tests come here, and pytest brings packaging with it.
        from packaging.requirements import Requirement

        for text in requirements:
            requirement = Requirement(text)
            if requirement.marker is not None and not requirement.marker.evaluate():
                continue
            try:
                version = metadata.version(requirement.name)
            except metadata.PackageNotFoundError as error:
                raise ResolutionError(f"{text}: not installed") from error
            if not requirement.specifier.contains(version, prereleases=True):
                raise ResolutionError(f"{text}: {version} is installed")
