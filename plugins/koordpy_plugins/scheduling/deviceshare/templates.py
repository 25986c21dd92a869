"""Templates of GPU shared resources: the only parts of a GPU that some models can give to a pod.

A ConfigMap has them by GPU model. Source: Koordinator, `pkg/scheduler/plugins/deviceshare/
gpu_shared_resource_templates_cache.go`.
"""

import logging
from collections.abc import Collection, Mapping
from typing import Any, Final

from koordpy.api.core import ConfigMap
from koordpy.api.quantity import Quantity, from_wire
from koordpy.api.resource_list import Quantities
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.derived_state import DerivedState, Snapshot
from koordpy.cluster.selector import Selector
from koordpy.lib import go_json
from koordpy.lib.text_documents import Limits, read_yaml

log = logging.getLogger(__name__)

_KEY: Final = "data.yaml"
_LIMITS: Final = Limits(size=1 << 20, values=1 << 16)

Templates = Mapping[str, Mapping[str, Quantities]]
"""By `<vendor>-<model>` and name of the template, what it takes of a GPU."""


class GPUSharedResourceTemplates(DerivedState):
    """The templates of one ConfigMap; without it there are none.

    While it cannot be read, the last templates are used, and they are not part of the snapshot.
    """

    def __init__(self, cluster: Cluster, namespace: str, name: str) -> None:
        super().__init__(cluster)
        self._key = f"{namespace}/{name}"
        self._templates: Templates = {}
        self._is_readable = True
        # Not `follow`, which would follow all ConfigMaps of the cluster.
        selector = Selector(namespace=namespace, fields=f"metadata.name={name}")
        store = cluster.store(ConfigMap, selector=selector)
        subscription = store.subscribe(self._set, lambda _, new: self._set(new), self._deleted, first=True)
        self.at_close(lambda: store.unsubscribe(subscription))

    def snapshot(self) -> Snapshot:
        """Return the templates, none while the ConfigMap cannot be read."""
        return (
            {key: dict(templates) for key, templates in self._templates.items()} if self._is_readable else {}
        )

    def matching(self, amounts: Mapping[str, Quantity]) -> Mapping[str, Collection[str]]:
        """Return the templates that equal amounts, by `<vendor>-<model>`; only of models that have any."""
        found = {}
        for key, templates in self._templates.items():
            names = frozenset(name for name, template in templates.items() if template == amounts)
            if names:
                found[key] = names
        return found

    def _set(self, config_map: ConfigMap) -> None:
        if config_map.metadata.key == self._key:
            try:
                self._templates = parse(config_map.data.get(_KEY, ""))
            except ValueError as error:
                log.error("ConfigMap %s: %s: %s", self._key, _KEY, error)
                self._is_readable = False
            else:
                self._is_readable = True

    def _deleted(self, config_map: ConfigMap) -> None:
        if config_map.metadata.key == self._key:
            self._templates = {}
            self._is_readable = True


def parse(text: str) -> Templates:
    """Read templates from YAML. Raises ValueError."""
    document = go_json.mapping(read_yaml(text, _LIMITS), "value") or {}
    return {
        key: {
            name: _amounts(template, f"{key}.{name}")
            for name, template in (go_json.mapping(templates, key) or {}).items()
        }
        for key, templates in document.items()
    }


def _amounts(value: Any, place: str) -> Quantities:
    found: Quantities = {}
    for name, amount in (go_json.mapping(value, place) or {}).items():
        try:
            found[name] = from_wire(amount)
        except ValueError as error:
            raise ValueError(f"{place}.{name}: {error}") from None
    return found
