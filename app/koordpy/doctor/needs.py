"""Whether the cluster has what the plugins work with; each plugin checks that itself."""

from collections.abc import AsyncIterator

from koordpy.api.core import Pod
from koordpy.cluster.errors import NotFound
from koordpy.scheduling.interface import Plugin

from .finding import Area, Finding
from .installation import Installation

AREA = Area("plugins")


async def check(installation: Installation) -> AsyncIterator[Finding]:
    """Run the checks of the plugins that have one, on what they follow, except pods."""
    for name, places in installation.profiles.missing.items():
        yield AREA.problem(
            name,
            f"is configured but not installed, so it is left out: {', '.join(places)}",
            "install the package that provides it, or remove it from the profile",
        )
    for plugin in installation.plugins:
        if type(plugin).lacks is Plugin.lacks:
            continue
        absent = await _list(installation, plugin)
        if absent:
            yield AREA.unknown(
                plugin.name, f"cannot be examined: the API server does not serve {', '.join(absent)}"
            )
            continue
        lacks = list(plugin.lacks())
        for lack in lacks:
            report = AREA.problem if lack.is_problem else AREA.warning
            yield report(plugin.name, lack.what, lack.fix)
        if not lacks:
            yield AREA.ok(plugin.name, "has what it needs")


async def _list(installation: Installation, plugin: Plugin) -> list[str]:
    """Fill the stores of a plugin; return the kinds that are not served."""
    absent = []
    for type_ in installation.types(plugin):
        store = installation.cluster.store(type_)
        if type_ is Pod or store.synced:
            continue
        try:
            store.replace(await installation.client.list_all(type_))
            store.synced = True
        except NotFound:
            absent.append(type_.__name__)
    return absent
