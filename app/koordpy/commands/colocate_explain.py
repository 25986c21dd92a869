"""`koordpy colocate explain`: how the batch, mid and device resources of a node came about.

Everything is read from the API server and computed here, as the noderesource controller would; nothing is
written, and no worker has to run.
"""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.markup import escape

from .options import Failure, cluster_options, output_option
from .output import Format, emit

if TYPE_CHECKING:
    from koordpy.controllers.noderesource.explanation import NodeResourceExplanation


@click.command(short_help="Show how the batch, mid and device resources of a node are computed.")
@click.argument("node")
@click.option("--config-namespace", default="koordinator-system", show_default=True)
@click.option("--slo-config-name", default="slo-controller-config", show_default=True)
@cluster_options
@output_option
def explain(node: str, config_namespace: str, slo_config_name: str, output: Format, **access: Any) -> None:
    """Show how the resources of NODE are computed, term by term, and whether a write is due."""
    found = asyncio.run(explained(node, config_namespace, slo_config_name, access))
    emit(found.model_dump(mode="json"), output, lambda to: show(to, found))


async def explained(
    name: str, namespace: str, config_name: str, access: Mapping[str, Any]
) -> "NodeResourceExplanation":
    """Return the explanation of a node, from the API server that `access` selects. Raises Failure."""
    from koordpy.api.core import ConfigMap, Node, Pod
    from koordpy.api.device import Device
    from koordpy.api.koordinator import NodeMetric, NodeResourceTopology
    from koordpy.cluster.client import Client
    from koordpy.cluster.cluster import Cluster
    from koordpy.cluster.connection import Connection
    from koordpy.cluster.errors import NotFound
    from koordpy.controllers import host
    from koordpy.controllers.interface import Handle
    from koordpy.controllers.noderesource.explanation import NodeExplainer

    cluster = Cluster()
    connection = Connection.find(access.get("kubeconfig"), access.get("context"), access.get("server"))
    client = Client(connection, timeout=10)
    try:
        wanted = [(type_, "", name) for type_ in (Node, NodeMetric, NodeResourceTopology, Device)]
        for type_, place, object_name in [*wanted, (ConfigMap, namespace, config_name)]:
            try:
                cluster.store(type_).put(await client.get(type_, place, object_name))
            except NotFound:
                continue
        for pod in await client.list_all(Pod, field_selector=f"spec.nodeName={name}"):
            cluster.store(Pod).put(pod)
    finally:
        await client.close()
    installed = host.installed()
    handle = Handle(
        cluster, host.feature_gates(installed), config_namespace=namespace, slo_config_name=config_name
    )
    controller = installed["noderesource"].make(handle)
    if not isinstance(controller, NodeExplainer):
        raise Failure("the installed controller noderesource cannot explain nodes")
    found = controller.explain(name)
    if found is None:
        raise Failure(f"node {name} does not exist")
    return found


def show(to: Console, found: "NodeResourceExplanation") -> None:
    """Print an explanation."""
    state = "on" if found.enabled else "off"
    age = (
        "no report"
        if found.report_age_seconds is None
        else f"last report {found.report_age_seconds:.0f} s ago"
    )
    to.print(f"node [bold]{escape(found.node)}[/bold]: colocation {state}, {age}")
    if found.problem:
        to.print(f"  [yellow]{escape(found.problem)}[/yellow]")
    absent = [resource.name for resource in found.resources if resource.reset and not resource.on_node]
    for resource in found.resources:
        if resource.name in absent:
            continue
        due = "removed" if resource.reset else resource.due or "nothing"
        on_node = resource.on_node or "nothing"
        to.print(f"  [bold]{escape(resource.name)}[/bold]: {escape(due)} (the node has {escape(on_node)})")
        if resource.message:
            to.print(f"    {escape(resource.message)}")
        for zone, amount in resource.zones.items():
            to.print(f"    zone {escape(zone)}: {escape(amount)}")
    if absent:
        to.print(f"  not offered: {escape(', '.join(absent))}", highlight=False, soft_wrap=True)
    for key, value in {**found.annotations, **found.labels}.items():
        to.print(f"  {escape(key)}: {escape(value)}")
    for what, reason in (("status", found.status_reason), ("metadata", found.meta_reason)):
        if reason:
            to.print(f"  {what} would be written: {escape(reason)}")
