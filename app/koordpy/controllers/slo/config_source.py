"""The ConfigMap slo-controller-config as one reader of it has understood it.

Every controller and plugin keeps its own: a section that is wrong for one does not concern the others.
Created and updated ConfigMaps count; a deleted one leaves everything as it is, until a restart. Source:
Koordinator, `pkg/slo-controller/config`.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from koordpy.api.core import ConfigMap

log = logging.getLogger(__name__)

C = TypeVar("C")


@dataclass(frozen=True)
class Parsed(Generic[C]):
    """What a ConfigMap means: `config`, None if it is of no use. `is_faulty` means that a wrong or absent
    section is the reason for what there is; `failures` are for events: reason and message.
    """

    config: C | None
    is_faulty: bool = False
    failures: tuple[tuple[str, str], ...] = field(default=())


class ConfigSource(Generic[C]):
    """One reader's configuration.

    `parse` makes it of the data of the ConfigMap (None if there is none) and of what is known so far.
    `config_map` returns the ConfigMap, `report` records an event about it, and `changed` is called when nodes
    have to be reconciled. Nothing is usable before the first ConfigMap that can be parsed, or is known not to
    exist.
    """

    def __init__(
        self,
        default: C,
        parse: Callable[[Mapping[str, str] | None, C], Parsed[C]],
        config_map: Callable[[], ConfigMap | None],
        report: Callable[[ConfigMap, str, str], None],
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self.config = default
        self.is_faulty = False
        self._parse, self._config_map, self._report, self._changed = parse, config_map, report, changed
        self._available = False

    def is_available(self) -> bool:
        """Return whether the configuration can be used; the ConfigMap is read as long as it cannot be."""
        if not self._available:
            try:
                found = self._config_map()
            except Exception as error:
                log.error("the ConfigMap slo-controller-config cannot be read: %s", error)
                return False
            self.sync(found)
        return self._available

    def created(self, config_map: ConfigMap) -> None:
        """Read a new ConfigMap."""
        if self.sync(config_map):
            self._changed()

    def updated(self, old: ConfigMap, new: ConfigMap) -> None:
        """Read a ConfigMap whose data has changed."""
        if old.data != new.data and self.sync(new):
            self._changed()

    def sync(self, config_map: ConfigMap | None) -> bool:
        """Read the ConfigMap; return whether the configuration is another one now."""
        parsed = self._parse(None if config_map is None else config_map.data, self.config)
        if config_map is not None:
            for reason, message in parsed.failures:
                log.warning("ConfigMap %s: %s", config_map.metadata.key, message)
                self._report(config_map, reason, message)
        self.is_faulty = parsed.is_faulty
        if parsed.config is None:
            return False
        self._available = True
        if parsed.config == self.config:
            return False
        self.config = parsed.config
        return True
