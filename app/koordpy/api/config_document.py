"""Configuration files as text: strict YAML (JSON is YAML too), bare or inside a ConfigMap.

Kubernetes components mount their configuration from a ConfigMap, and users pass either form.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from koordpy.lib import text_documents

from .config_model import ConfigError


def parse(text: str, kind: str) -> dict[str, Any]:
    """Return the decoded configuration of a kind: the document itself, or the one inside a ConfigMap.

    Raises ConfigError if the text is not a YAML object, and for a ConfigMap that does not hold exactly one
    document of the kind.
    """
    document = _object(text, kind)
    if document.get("kind") != "ConfigMap":
        return document
    return _object(_held(document, kind), kind)


def text_of(text: str, kind: str) -> str:
    """Return the text of the configuration of a kind: the text itself, or the one inside a ConfigMap.

    Text that cannot be read is returned as it is. Raises ConfigError for a ConfigMap that does not hold
    exactly one document of the kind.
    """
    try:
        document = text_documents.read_yaml(text)
    except text_documents.DocumentError:
        return text
    if not isinstance(document, dict) or document.get("kind") != "ConfigMap":
        return text
    return _held(document, kind)


def _held(document: dict[str, Any], kind: str) -> str:
    """Return the text of a kind in a ConfigMap."""
    data = document.get("data")
    texts = (
        {key: text for key, text in data.items() if isinstance(text, str)} if isinstance(data, dict) else {}
    )
    found = [text for key, text in texts.items() if _is_of(key, text, kind)]
    if len(found) != 1:
        name = (document.get("metadata") or {}).get("name", "")
        raise ConfigError(
            f"ConfigMap {name!r}: expected one {kind} among its keys ({', '.join(texts) or 'none'}), "
            f"found {len(found)}"
        )
    return found[0]


def load(text: str) -> Any:
    """Decode YAML, rejecting duplicate keys and keeping times as text. Raises ConfigError."""
    with _refusals():
        return text_documents.read_yaml(text, unique_keys=True)


def load_all(text: str) -> list[Any]:
    """Decode every document of a text as `load` does. Raises ConfigError."""
    with _refusals():
        return text_documents.read_all_yaml(text, unique_keys=True)


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except text_documents.RepeatedKeyError as error:
        raise ConfigError(str(error)) from None
    except text_documents.DocumentError as error:
        raise ConfigError(f"not YAML: {error}") from None


def _object(text: str, kind: str) -> dict[str, Any]:
    document = load(text)
    if not isinstance(document, dict):
        raise ConfigError(f"expected a {kind} document, got {type(document).__name__}")
    return document


def _is_of(key: str, text: str, kind: str) -> bool:
    """Whether a ConfigMap's entry is of the kind; other entries may be anything."""
    if not re.search(rf"""kind["']?:\s*["']?{kind}\b""", text):
        return False
    try:
        document = load(text)
    except ConfigError as error:
        raise error.under(f"data[{key}]") from None
    return isinstance(document, dict) and document.get("kind") == kind
