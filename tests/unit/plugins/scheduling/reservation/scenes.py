"""Small clusters with reservations, and a profile that has the Reservation plugin."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from koordpy.api.core import Node, Pod
from koordpy.api.extension import ANNOTATION_RESERVATION_AFFINITY, ANNOTATION_RESERVATION_ALLOCATED
from koordpy.api.reservation import Reservation
from koordpy.api.reserve_pod import is_reserve_pod
from koordpy.api.scheme import decode
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.interface import Plugin
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.outcome import FilterOutcome
from koordpy.scheduling.profiles.registry import Place, build
from koordpy_plugins.scheduling.reservation.args import ReservationArgs
from koordpy_plugins.scheduling.reservation.plugin import Reservation as ReservationPlugin
from koordpy_plugins.scheduling.stock.nodeports.plugin import NodePorts
from koordpy_plugins.scheduling.stock.noderesourcesfit.plugin import NodeResourcesFit
from tests.unit.scheduling.worlds import Binder, configuration, node, pod, world

_ALL = [{"name": "*"}]

CLASSES: tuple[type[Plugin], ...] = (ReservationPlugin, NodeResourcesFit, NodePorts, Binder)


def reservation(
    name: str,
    node_name: str = "n1",
    cpu: str = "4",
    *,
    phase: str = "Available",
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    ports: Iterable[int] = (),
    **spec: Any,
) -> Reservation:
    container = {
        "name": "c",
        "resources": {"requests": {"cpu": cpu}},
        "ports": [{"hostPort": port} for port in ports],
    }
    status: dict[str, Any] = {"phase": phase}
    if node_name:
        status |= {"nodeName": node_name, "allocatable": {"cpu": cpu}}
    return decode(
        Reservation,
        {
            "metadata": {
                "name": name,
                "uid": f"uid-{name}",
                "labels": labels or {},
                "annotations": annotations or {},
            },
            "spec": {
                "ttl": "1h",
                "allocateOnce": False,
                "allocatePolicy": "Aligned",
                "owners": [{"labelSelector": {"matchLabels": {"for": name}}}],
                "template": {"spec": {"containers": [container]}},
                **spec,
            },
            "status": status,
        },
    )


def pending(name: str, cpu: str = "4", **spec: Any) -> Reservation:
    return reservation(name, "", cpu, phase="Pending", **spec)


def claimant(
    name: str,
    of: str = "",
    cpu: str = "1",
    *,
    affinity: str | None = None,
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> Pod:
    """A pod that is an owner of the reservation `of`."""
    made = pod(name, cpu, "0", **spec)
    made.metadata.labels = {**({"for": of} if of else {}), **(labels or {})}
    made.metadata.annotations = {} if affinity is None else {ANNOTATION_RESERVATION_AFFINITY: affinity}
    return made


def user(name: str, of: str, cpu: str = "1", node_name: str = "n1") -> Pod:
    """A bound pod that uses the reservation `of`."""
    made = pod(name, cpu, "0", node_name)
    text = json.dumps({"name": of, "uid": f"uid-{of}"})
    made.metadata.annotations = {ANNOTATION_RESERVATION_ALLOCATED: text}
    return made


def copied(obj: Any, **metadata: Any) -> Any:
    return msgspec.structs.replace(obj, metadata=msgspec.structs.replace(obj.metadata, **metadata))


class Scene:
    """A cluster, a profile with the plugin, and attempts."""

    def __init__(
        self,
        nodes: Iterable[Node] = (),
        objects: Iterable[Reservation | Pod] = (),
        *,
        args: Mapping[str, Any] | None = None,
        client: Client | None = None,
        handle: Handle | None = None,
        others: Sequence[type[Plugin]] = (),
    ) -> None:
        self.cluster: Cluster = handle.cluster if handle else world(nodes or [node("n1", cpu="10")])
        self.handle = handle or Handle(self.cluster, client=client)
        classes = (*CLASSES[:-1], *others)
        profiles = build(
            configuration(
                [cls.name for cls in classes],
                {"Reservation": dict(args or {})},
                bind={"enabled": [{"name": "Reservation"}, {"name": "DefaultBinder"}], "disabled": _ALL},
            ),
            lambda _: self.handle,
            place=Place.EXTENDER,
            classes={cls.name: cls for cls in (*classes, CLASSES[-1])},
        )
        self.framework: Framework = profiles.frameworks["default-scheduler"]
        self.plugin = next(p for p in self.framework.plugins if isinstance(p, ReservationPlugin))
        self.show(*objects)

    def show(self, *objects: Reservation | Pod) -> None:
        """Let the cluster have objects, new or changed."""
        for each in objects:
            self.cluster.store(type(each)).apply(each)

    @property
    def args(self) -> ReservationArgs:
        """The arguments of the plugin."""
        assert isinstance(self.plugin.args, ReservationArgs)
        return self.plugin.args

    @property
    def nodes(self) -> NodeSet:
        names = sorted(self.cluster.nodes.all().names)
        return self.cluster.nodes.select(names)[0]

    def find(self, wanted: Pod) -> tuple[CycleState, FilterOutcome]:
        if not is_reserve_pod(wanted):
            self.show(wanted)
        state = self.framework.new_state()
        return state, self.framework.find_feasible(state, wanted, self.nodes)

    def fits(self, wanted: Pod) -> bool:
        """Return whether a pod finds any node."""
        return bool(len(self.find(wanted)[1].kept)) and self.find(wanted)[1].prefilter.is_success

    def reasons(self, wanted: Pod) -> dict[str, tuple[str, ...]]:
        """Return the reasons of the nodes that refuse a pod."""
        outcome = self.find(wanted)[1]
        if not outcome.prefilter.is_success:
            return {"": outcome.prefilter.reasons}
        return {name: status.reasons for status, names in outcome.failed() for name in names}

    def reserve(self, wanted: Pod, node_name: str = "n1") -> CycleState:
        """Take a pod as far as Reserve; it must succeed."""
        state, outcome = self.find(wanted)
        assert outcome.error is None
        assert node_name in outcome.kept.names
        assert self.framework.nominate_reservation(state, wanted, node_name).is_success
        status = self.framework.run_reserve(state, wanted, node_name)
        assert status.is_success, status
        return state
