"""Sections of third parties in slo-controller-config.

Defaults for `extensions` of colocation-config, and plugins that make sections of NodeSLOs of ConfigMap keys
of their own (`NodeSLOExtension`), are registered when a package is imported: by a plugin of any kind. Source:
Koordinator, `pkg/util/sloconfig/colocation_config_extender.go`, `pkg/slo-controller/nodeslo/extender_*.go`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from koordpy.api.core import Node
from koordpy.api.slo.colocation import DEFAULT, ColocationStrategy

_colocation_defaults: Final[dict[str, Any]] = {}
_node_slo_defaults: Final[dict[str, Any]] = {}
_node_slo_extensions: Final[dict[str, "NodeSLOExtension"]] = {}


class AlreadyRegistered(ValueError):
    """An extension of that name exists."""


class NodeSLOExtension(ABC):
    """Makes one section of NodeSLOs of a third party's keys in slo-controller-config."""

    @abstractmethod
    def merge(self, config: Mapping[str, Any], data: Mapping[str, str]) -> dict[str, Any]:
        """Return the configuration of all extensions with one's own part read from the ConfigMap's data.

        `config` is what is known so far, by key. An exception leaves it as it is.
        """

    @abstractmethod
    def section(self, node: Node, config: Mapping[str, Any]) -> tuple[str, Any | None]:
        """Return the key and the content of a node's section; None removes it.

        An exception leaves the section as it is stored.
        """


def register_colocation_default(key: str, value: Any) -> None:
    """Set what `extensions` of colocation-config have under a key by default. Raises AlreadyRegistered."""
    if key in _colocation_defaults:
        raise AlreadyRegistered(f"extension {key} of defaultColocationStrategyExtender already exist")
    _colocation_defaults[key] = value


def unregister_colocation_default(key: str) -> None:
    """Remove a default."""
    _colocation_defaults.pop(key, None)


def colocation_default() -> ColocationStrategy:
    """Return the default strategy, with the registered extensions."""
    if not _colocation_defaults:
        return DEFAULT
    return msgspec.structs.replace(DEFAULT, extensions=dict(_colocation_defaults))


def register_node_slo_default(key: str, value: Any) -> None:
    """Set what extensions find under a key before any ConfigMap was read. Raises AlreadyRegistered."""
    if key in _node_slo_defaults:
        raise AlreadyRegistered(f"extension {key} of defaultExtensionStrategy already exist")
    _node_slo_defaults[key] = value


def unregister_node_slo_default(key: str) -> None:
    """Remove a default."""
    _node_slo_defaults.pop(key, None)


def register_node_slo_extension(name: str, extension: NodeSLOExtension) -> None:
    """Add a plugin. Raises AlreadyRegistered."""
    if name in _node_slo_extensions:
        raise AlreadyRegistered(f"node merged plugin {name} already exist")
    _node_slo_extensions[name] = extension


def unregister_node_slo_extension(name: str) -> None:
    """Remove a plugin."""
    _node_slo_extensions.pop(name, None)


def node_slo_defaults() -> dict[str, Any]:
    """Return the registered defaults."""
    return dict(_node_slo_defaults)


def node_slo_extensions() -> Mapping[str, NodeSLOExtension]:
    """Return the registered plugins by name."""
    return dict(_node_slo_extensions)
