"""What kubelet's CPU manager decides: its configuration, and the state file with the CPUs it gave to pods."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from koordpy.agent.interface.facts import Processor
from koordpy.agent.interface.layout import kubelet_uid
from koordpy.agent.interface.states import PodMeta
from koordpy.agent.reporting.cpu_reservation import take_by_topology
from koordpy.api import qos, quantity, resource_status
from koordpy.lib import cpuset

STATIC = "static"


class StateFileError(ValueError):
    """The state file of kubelet's CPU manager is not what kubelet writes."""


@dataclass(frozen=True)
class KubeletCPUs:
    """Kubelet's configuration, empty where it is not known, and its state file's text."""

    config: Mapping[str, Any] = field(default_factory=dict)
    state: str = ""

    @property
    def topology_policy(self) -> str:
        """The policy of the topology manager."""
        return str(self.config.get("topologyManagerPolicy", ""))

    @property
    def topology_scope(self) -> str:
        """The scope of the topology manager."""
        return str(self.config.get("topologyManagerScope", ""))

    @property
    def cpu_policy(self) -> str:
        """The policy of the CPU manager; where there is no configuration that of the state file."""
        if self.config:
            return str(self.config.get("cpuManagerPolicy") or "")
        try:
            return str(msgspec.json.decode(self.state or "{}", type=dict[str, Any]).get("policyName") or "")
        except msgspec.DecodeError:
            return ""

    @property
    def is_static(self) -> bool:
        """Whether kubelet gives CPUs to guaranteed pods."""
        return self.cpu_policy == STATIC

    def policy(self, processors: Iterable[Processor]) -> dict[str, Any]:
        """Return the policy, its options and the CPUs that are reserved by kubelet; without what is empty."""
        found = {
            "policy": self.cpu_policy,
            "options": self.config.get("cpuManagerPolicyOptions"),
            "reservedCPUs": cpuset.render(self._reserved(processors)) if self.is_static else "",
        }
        return {name: value for name, value in found.items() if value}

    def allocations(self, pods: Iterable[PodMeta]) -> list[dict[str, Any]]:
        """Return the CPUs of pods that kubelet manages, by UID. Raises StateFileError."""
        if not self.is_static or not self.state:
            return []
        try:
            entries: dict[str, dict[str, str]] = (
                msgspec.json.decode(self.state, type=dict[str, Any]).get("entries") or {}
            )
            sets = {
                uid: frozenset[int]().union(*map(_parsed, entry.values())) for uid, entry in entries.items()
            }
        except (msgspec.DecodeError, ValueError, AttributeError, TypeError) as error:
            raise StateFileError(f"the state of kubelet's CPU manager: {error}") from None
        by_uid = {kubelet_uid(meta.pod): meta for meta in pods}
        found = []
        for uid in sorted(sets):
            meta = by_uid.get(uid)
            if not sets[uid] or (meta is not None and _managed_by_koordinator(meta)):
                continue
            names = {}
            if meta is not None:
                names = {"namespace": meta.pod.metadata.namespace, "name": meta.pod.metadata.name}
            found.append({**names, "uid": uid, "cpuset": cpuset.render(sets[uid]), "managedByKubelet": True})
        return found

    def _reserved(self, processors: Iterable[Processor]) -> frozenset[int]:
        try:
            if explicit := self.config.get("reservedSystemCPUs"):
                reserved = cpuset.parse(str(explicit))
                return reserved if reserved <= {each.cpu for each in processors} else frozenset()
            milli = sum(
                quantity.milli_value((self.config.get(name) or {}).get("cpu", 0))
                for name in ("kubeReserved", "systemReserved")
            )
        except (ValueError, TypeError, AttributeError):
            return frozenset()
        return take_by_topology(processors, math.ceil(milli / 1000))


def _parsed(text: str) -> frozenset[int]:
    try:
        return cpuset.parse(text)
    except ValueError:
        return frozenset()


def _managed_by_koordinator(meta: PodMeta) -> bool:
    if qos.qos_class_raw(meta.pod) in ("LS", "BE"):
        return True
    try:
        return bool(cpuset.parse(resource_status.of(meta.pod.metadata.annotations).cpuset))
    except ValueError:
        return False
