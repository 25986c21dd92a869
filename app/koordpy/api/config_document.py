"""Configuration files as text: strict YAML (JSON is YAML too), bare or inside a ConfigMap.

Kubernetes components mount their configuration from a ConfigMap, and users pass either form.
"""

import re
from typing import Any

import yaml

from .config_model import ConfigError


def parse(text: str, kind: str) -> dict[str, Any]:
    """Return the decoded configuration of a kind: the document itself, or the one inside a ConfigMap.

    Raises ConfigError if the text is not a YAML object, and for a ConfigMap that does not hold exactly one
    document of the kind.
    """
    document = _object(text, kind)
    if document.get("kind") != "ConfigMap":
        return document
    texts = {key: text for key, text in (document.get("data") or {}).items() if isinstance(text, str)}
    found = [inner for inner in (_inner(key, text, kind) for key, text in texts.items()) if inner is not None]
    if len(found) != 1:
        name = (document.get("metadata") or {}).get("name", "")
        raise ConfigError(
            f"ConfigMap {name!r}: expected one {kind} among its keys ({', '.join(texts) or 'none'}), "
            f"found {len(found)}"
        )
    return found[0]


def load(text: str) -> Any:
    """Decode YAML, rejecting duplicate keys and keeping times as text. Raises ConfigError."""
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise ConfigError(f"not YAML: {error}") from None


def load_all(text: str) -> list[Any]:
    """Decode every document of a text as `load` does. Raises ConfigError."""
    try:
        return list(yaml.load_all(text, Loader=_Loader))
    except yaml.YAMLError as error:
        raise ConfigError(f"not YAML: {error}") from None


class _Loader(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[object] = set()
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                continue
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise ConfigError(f"line {key_node.start_mark.line + 1}: field {key!r} is given twice")
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _object(text: str, kind: str) -> dict[str, Any]:
    document = load(text)
    if not isinstance(document, dict):
        raise ConfigError(f"expected a {kind} document, got {type(document).__name__}")
    return document


def _inner(key: str, text: str, kind: str) -> dict[str, Any] | None:
    """Return a ConfigMap's entry if it is of the kind; other entries may be anything."""
    if not re.search(rf"""kind["']?:\s*["']?{kind}\b""", text):
        return None
    try:
        document = load(text)
    except ConfigError as error:
        raise error.under(f"data[{key}]") from None
    return document if isinstance(document, dict) and document.get("kind") == kind else None
