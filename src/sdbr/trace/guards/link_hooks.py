"""Hooks of single links: which of them are traced with the link they belong to."""

from __future__ import annotations

import chainer
from chainer.link_hooks import SpectralNormalization, WeightStandardization

#: Any other hook, subclasses of these included, makes the call define-by-run.
KNOWN_HOOKS = (SpectralNormalization, WeightStandardization)


def hooks_of(link: chainer.Link) -> tuple:
    """The hooks of the link itself, in the order in which they are called."""
    return tuple((link.__dict__.get("_local_link_hooks") or {}).values())


def unknown_hook(link: chainer.Link) -> str | None:
    """Why the hooks of `link` cannot be part of a schedule, or None."""
    for hook in hooks_of(link):
        if type(hook) not in KNOWN_HOOKS:
            return f"a link hook is active: {hook.name} on {type(link).__name__}"
    return None
