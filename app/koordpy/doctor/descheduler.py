"""Whether the descheduler can do what its configuration says: nodes, profiles, what plugins lack.

Plugins that are not installed, rights, custom resource definitions and the Lease are examined with those of
the other parts.
"""

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

from koordpy.api.catalogue import Catalogue
from koordpy.api.config_model import ConfigError
from koordpy.api.core import Node, Pod
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.errors import NotFound
from koordpy.descheduling.args import PluginArgs
from koordpy.descheduling.config import loading
from koordpy.descheduling.config.configuration import DeschedulerConfiguration, Profile
from koordpy.descheduling.engine import framework
from koordpy.descheduling.interface import Plugin
from koordpy.descheduling.toolkit import nodes
from koordpy.features import catalog
from koordpy.features.feature import Part

from .finding import Area, Finding
from .installation import Installation

AREA = Area("descheduler")


async def check(installation: Installation) -> AsyncIterator[Finding]:
    """Check the nodes that the profiles select, what the profiles enable, and what plugins lack."""
    file = installation.settings.worker.descheduler.config
    if (why := installation.unchecked(Part.DESCHEDULER)) or file is None:
        yield AREA.skipped(why)
        return
    config = loading.load_file(Path(file))
    settings = installation.settings.worker.descheduler
    if config.dry_run if settings.dry_run is None else settings.dry_run:
        yield AREA.note("dryRun", "is set: rounds are recorded, and nothing is evicted")
    listed = await installation.client.list_all(Node)
    for finding in _of_nodes(config, listed):
        yield finding
    installed = framework.installed()
    for profile in config.profiles:
        sets = profile.plugins
        if sets is None or not (sets.deschedule.names or sets.balance.names):
            yield AREA.warning(
                profile.name,
                "has no Deschedule or Balance plugin: it evicts nothing",
                "enable one, or remove it",
            )
        async for finding in _of_plugins(installation, profile, installed):
            yield finding


def _of_nodes(config: DeschedulerConfiguration, listed: list[Node]) -> Iterator[Finding]:
    selected = nodes.selected(listed, config.node_selector)
    ready = [node for node in selected if nodes.is_ready(node)]
    if len(ready) <= 1:
        yield AREA.problem(
            "nodes",
            f"{len(ready)} of {len(listed)} are ready and selected: rounds do nothing with fewer than two",
            "see kubectl get nodes, and nodeSelector in the DeschedulerConfiguration",
        )
        return
    yield AREA.ok("nodes", f"{len(ready)} of {len(listed)} are ready and selected")
    for profile in config.profiles:
        if not nodes.selected(ready, profile.node_selector):
            yield AREA.warning(
                profile.name, "its nodeSelector matches no ready node", "correct the profile's nodeSelector"
            )


async def _of_plugins(
    installation: Installation, profile: Profile, installed: Catalogue[Plugin]
) -> AsyncIterator[Finding]:
    """Run the checks of the profile's plugins that have one, on what they follow, except pods."""
    sets = profile.plugins
    if sets is None:
        return
    gates = installation.descheduling_gates
    given = {entry.name: entry.args for entry in profile.plugin_config}
    for name in dict.fromkeys(
        (*sets.deschedule.names, *sets.balance.names, *sets.evict.names, *sets.filter.names)
    ):
        if name not in installed:
            continue
        type_ = installed.load(name, "")
        if type_.lacks is Plugin.lacks:
            continue
        cluster = Cluster(installation.clock)
        handle = replace(
            catalog.descheduling_handle(cluster, gates),
            profile=profile.name,
            node_selector=profile.node_selector,
        )
        args = given.get(name)
        try:
            if not isinstance(args, PluginArgs):
                args = type_.read_args(args, name)
            plugin = installed.make(name, args, handle, name)
        except ConfigError as error:
            yield AREA.problem(name, str(error), "correct its arguments")
            continue
        cluster.store(Node)  # what handle.nodes() returns
        for store in cluster.stores:
            if store.type is Pod:
                continue
            try:
                store.replace(await installation.client.list_all(store.type))
            except NotFound:  # its definition is a finding of its own
                continue
        lacks = list(plugin.lacks())
        for lack in lacks:
            report = AREA.problem if lack.is_problem else AREA.warning
            yield report(name, lack.what, lack.fix)
        if not lacks:
            yield AREA.ok(name, "has what it needs")
