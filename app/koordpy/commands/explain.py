"""`koordpy profile explain`: what admission does to a pod, profile by profile, change by change."""

import json
import random
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape

from koordpy.admission import explain as admission_explain
from koordpy.admission.explain import AdmissionExplanation
from koordpy.admission.gates import SPECS
from koordpy.admission.handler import Handle
from koordpy.api.core import Namespace, PriorityClass
from koordpy.api.koordinator import ClusterColocationProfile
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.connection import Connection
from koordpy.lib.clock import SystemClock
from koordpy.lib.feature_gates import FeatureGates

_ONLINE_TYPES = (ClusterColocationProfile, Namespace, PriorityClass)

_MARKS = {"add": ("+", "green"), "remove": ("-", "red"), "replace": ("~", "yellow")}


async def explain(
    documents: Sequence[dict[str, Any]],
    *,
    namespace: str,
    feature_gates: str = "",
    server: str | None = None,
    kubeconfig: str | None = None,
    context: str | None = None,
) -> list[AdmissionExplanation]:
    """Explain every pod among documents. Documents win over objects of the cluster with their names."""
    gates = FeatureGates(SPECS)
    gates.set_from_text(feature_gates)
    cluster = Cluster()
    if server or kubeconfig or context:
        await _fill(cluster, Connection.find(kubeconfig, context, server))
    handle = Handle(cluster, gates, random.Random(), SystemClock())
    return admission_explain.explain_documents(documents, handle, namespace=namespace)


async def _fill(cluster: Cluster, connection: Connection) -> None:
    client = Client(connection)
    try:
        for type_ in _ONLINE_TYPES:
            store = cluster.store(type_)
            for obj in await client.list_all(type_):
                store.apply(obj)
    finally:
        await client.close()


def show(to: Console, found: Sequence[AdmissionExplanation], _: Sequence[dict[str, Any]] = ()) -> None:
    """Print explanations for people."""
    for item in found:
        to.print(f"[bold]{item.kind} {item.namespace}/{escape(item.name)}[/bold]")
        if not item.rules:
            to.print("  no ClusterColocationProfile is known")
        for rule in item.rules:
            mark = "[green]matches[/green]" if rule.applied else "[dim]skipped[/dim]"
            reason = f": {escape(rule.reason)}" if rule.reason else ""
            to.print(f"  {mark} {escape(rule.subject)}{reason}")
        show_changes(to, item)
        if not item.allowed:
            to.print(f"  [red]refused[/red] with {item.code}: {escape(item.message)}")


def show_changes(to: Console, item: AdmissionExplanation) -> None:
    """Print the changes of one explanation as a diff, each with its cause."""
    for change in item.changes:
        mark, colour = _MARKS.get(change.op, ("~", "yellow"))
        before = "" if change.op == "add" else json.dumps(change.before)
        after = "" if change.op == "remove" else json.dumps(change.after)
        arrow = " -> " if before and after else ""
        to.print(
            f"  [{colour}]{mark} {escape(change.path)}: {escape(before)}{arrow}{escape(after)}[/{colour}]"
            f"  [dim]{escape(change.cause)}[/dim]"
        )
