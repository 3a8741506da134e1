"""Prints the section of CHANGELOG.md for a release; `.ci/release_notes.py v0.1.0`.

Exit code 1, with what to mend, where the tag is not the version, or there is no such section.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def version():
    """The version, read where it stands."""
    text = (ROOT / "src" / "sdbr" / "base" / "version.py").read_text(encoding="utf-8")
    return re.search(r'^VERSION = "(.+)"$', text, re.M)[1]


def notes(tag, changelog):
    """The text of the section.

    Parameters
    ----------
    tag : str
        ``v``, and the version.
    changelog : str
        The contents of CHANGELOG.md.

    Raises
    ------
    ValueError
        If there is none, or the tag is another one.
    """
    wanted = version()
    if tag != f"v{wanted}":
        raise ValueError(f"the tag is {tag}, and src/sdbr/base/version.py says {wanted}")
    heads = re.split(r"^## (.*)$", changelog, flags=re.M)
    for head, text in zip(heads[1::2], heads[2::2], strict=True):
        if re.fullmatch(rf"\[?{re.escape(wanted)}\]?( - \d{{4}}-\d\d-\d\d)?", head):
            if text.strip():
                return text.strip() + "\n"
            raise ValueError(f"CHANGELOG.md says nothing of {wanted}")
    raise ValueError(
        f'CHANGELOG.md has no section "## {wanted} - <date>": "## Unreleased" becomes it'
    )


if __name__ == "__main__":
    try:
        sys.stdout.write(notes(sys.argv[1], (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")))
    except ValueError as problem:
        raise SystemExit(str(problem)) from None
