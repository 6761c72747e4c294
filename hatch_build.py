"""The README of a built package: its links lead to the repository, since the package index shows it without the files beside it."""

import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

REPOSITORY = "https://github.com/flopsight/flopsight"
LINK = re.compile(r"(?P<picture>!?)\[(?P<text>[^\]]*)\]\((?!https?:|#)(?P<path>[^)]+)\)")


class Readme(MetadataHookInterface):
    """Names the files of this version in full."""

    def update(self, metadata: dict) -> None:
        """Put the README among the metadata."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": with_full_links(text, metadata["version"])}


def with_full_links(text: str, version: str) -> str:
    """Pages as GitHub shows them, pictures as they are stored."""

    def full(found: re.Match[str]) -> str:
        kind = "raw" if found["picture"] else "blob"
        return f"{found['picture']}[{found['text']}]({REPOSITORY}/{kind}/v{version}/{found['path']})"

    return LINK.sub(full, text)
