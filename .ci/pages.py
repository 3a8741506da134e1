"""A hook of mkdocs: what pages link to outside of docs/ (see mkdocs.yml).

Pictures go into the site. Of other files the name stays, as no address is known under which they
could be read.
"""

import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent
OUTSIDE = re.compile(r"(!?)\[([^]]*)\]\(\s*\.\./([^)#]+)(?:#[^)]*)?\)")


def on_files(files, config):
    """Add the pictures."""
    for page in sorted((ROOT / "docs").glob("*.md")):
        for picture, _, path in OUTSIDE.findall(page.read_text(encoding="utf-8")):
            if picture and not files.get_file_from_path(path):
                files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown, page, config, files):
    """Links to what is in the site; names of what is not."""

    def link(found):
        picture, text, path = found.groups()
        return f"![{text}]({path})" if picture else f"{text} (`{path}`)"

    return OUTSIDE.sub(link, markdown)
