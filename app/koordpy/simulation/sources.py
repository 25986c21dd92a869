"""Objects that a scenario gives inline or in a file."""

from pathlib import Path
from typing import Any

from koordpy.api import config_document, config_file
from koordpy.api.config_model import ConfigError

from .setup import Source

Document = dict[str, Any]


def read_source(source: Source, folder: Path) -> list[Document]:
    """Return the objects of a source; a List is expanded. Raises ConfigError, OSError."""
    if source.manifest is not None:
        return [source.manifest]
    path = folder / str(source.file)
    found: list[Document] = []
    try:
        for document in config_document.load_all(config_file.read(path)):
            if document is None:
                continue
            if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
                raise ConfigError(f"got {str(document)[:60]!r}, expected objects with a kind")
            items = document.get("items")
            found += items if document["kind"].endswith("List") and isinstance(items, list) else [document]
    except ConfigError as error:
        raise error.under(path) from None
    return found
