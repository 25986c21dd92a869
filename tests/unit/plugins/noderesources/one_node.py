"""One plugin of noderesource, and a node in memory."""

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from koordpy.api.core import ConfigMap
from koordpy.api.meta import ObjectMeta
from koordpy.api.plugin import NoArgs
from koordpy.api.scheme import decode
from koordpy.api.slo.colocation import DEFAULT, ColocationStrategy
from koordpy.cluster.cluster import Cluster
from koordpy.controllers.host import feature_gates, installed
from koordpy.controllers.interface import Handle as ControllerHandle
from koordpy.controllers.noderesource.interface import Handle, Inputs, NodeResource, NodeResourcePlugin
from koordpy.controllers.slo.node_state import NodeState

P = TypeVar("P", bound=NodeResourcePlugin)
AMOUNTS = {"cpu": "8", "memory": "16Gi"}


class OneNode(Generic[P]):
    """A plugin of a type, set up.

    `enqueued` are the nodes that it has reconciled since, `*` for all, `events` its warnings.
    """

    def __init__(
        self, type_: type[P], data: Mapping[str, str] | None = None, gates: Mapping[str, bool] | None = None
    ) -> None:
        self.cluster = Cluster()
        self.enqueued: list[str] = []
        self.events: list[tuple[str, str]] = []
        controller = ControllerHandle(self.cluster, feature_gates(installed(), gates))
        controller.report = lambda _, reason, message: self.events.append((reason, message))  # type: ignore[method-assign, assignment, misc]
        handle = Handle(controller, self.enqueued.append, lambda: self.enqueued.append("*"))
        self.plugin: Any = type_(NoArgs(), handle)
        self.strategy: ColocationStrategy = DEFAULT
        if data is not None:
            self.configure(data)
        self.plugin.setup()
        self.enqueued.clear()

    def configure(self, data: Mapping[str, str]) -> None:
        meta = ObjectMeta(namespace="koordinator-system", name="slo-controller-config")
        self.cluster.store(ConfigMap).put(ConfigMap(metadata=meta, data=dict(data)))

    def put(self, type_: Any, **document: Any) -> None:
        meta = {"name": "n", **document.pop("metadata", {})}
        self.cluster.store(type_).put(decode(type_, {"metadata": meta, **document}))

    def calculate(self, node: NodeState) -> NodeResource:
        """Return what the plugin computes for a node."""
        result = NodeResource()
        result.set(self.plugin.calculate(self.strategy, node, Inputs()))
        return result

    def prepared(self, node: NodeState) -> NodeState:
        """Return a node as it would be written."""
        made = node.copy()
        self.plugin.prepare(self.strategy, made, self.calculate(node))
        return made


def node(
    labels: Mapping[str, str] | None = None, annotations: Mapping[str, str] | None = None, **amounts: str
) -> NodeState:
    """Return a node that has these amounts besides cpu and memory."""
    own = {f"koordinator.sh/{name.replace('_', '-')}": amount for name, amount in amounts.items()}
    return NodeState("n", dict(labels or {}), dict(annotations or {}), {**AMOUNTS, **own}, {**AMOUNTS, **own})
