"""Where slo-controller-config is, and following it."""

from typing import Any

from koordpy.api.core import ConfigMap
from koordpy.cluster.selector import Selector
from koordpy.cluster.store import Store

from ..interface import Handle
from .config_source import ConfigSource


def config_maps(handle: Handle) -> Store[ConfigMap]:
    """Return a store that has the ConfigMap (and others, if other parts of the process follow them)."""
    selector = Selector(namespace=handle.config_namespace, fields=f"metadata.name={handle.slo_config_name}")
    return handle.cluster.store(ConfigMap, selector=selector)


def found(handle: Handle) -> ConfigMap | None:
    """Return the ConfigMap, None if it does not exist."""
    return config_maps(handle).get(handle.config_namespace, handle.slo_config_name)


def follow(handle: Handle, *sources: ConfigSource[Any]) -> None:
    """Pass creations and updates of the ConfigMap on."""
    key = f"{handle.config_namespace}/{handle.slo_config_name}"

    def created(config_map: ConfigMap) -> None:
        if config_map.metadata.key == key:
            for source in sources:
                source.created(config_map)

    def updated(old: ConfigMap, new: ConfigMap) -> None:
        if new.metadata.key == key:
            for source in sources:
                source.updated(old, new)

    config_maps(handle).subscribe(on_add=created, on_update=updated)
