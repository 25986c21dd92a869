"""Everything that an audit of a cluster reads, in lists."""

from typing import TYPE_CHECKING, Any

from .output import counted

if TYPE_CHECKING:
    from koordpy.api.meta import KubeObject
    from koordpy.audit.objects import Objects
    from koordpy.cluster.client import Client
    from koordpy.cluster.errors import Forbidden, NotFound


async def listed(client: "Client") -> "Objects":
    """List everything that is audited. Raises ApiError where nodes or pods cannot be listed."""
    from koordpy.api.core import Node, Pod
    from koordpy.audit.objects import TYPES, Objects
    from koordpy.cluster.errors import Forbidden, NotFound

    found: dict[type[KubeObject], list[Any]] = {}
    missing: dict[str, str] = {}
    for type_ in TYPES:
        try:
            found[type_], malformed = await _all(client, type_)
            if malformed:
                missing[type_.__name__] = f"{counted(malformed, 'object')} of another shape left out"
        except (Forbidden, NotFound) as error:
            if type_ in (Node, Pod):
                raise
            missing[type_.__name__] = why_missing(error)
    return Objects.of(found, missing)


def why_missing(error: "Forbidden | NotFound") -> str:
    """Return why a kind cannot be listed."""
    from koordpy.cluster.errors import NotFound

    return "the cluster has no such resource" if isinstance(error, NotFound) else "no right to list them"


async def _all(client: "Client", type_: "type[KubeObject]") -> tuple[list[Any], int]:
    """Return all objects of a type, and how many could not be decoded."""
    items: list[Any] = []
    malformed, continue_ = 0, ""
    while True:
        page = await client.list_page(type_, continue_=continue_)
        items += page.items
        malformed += len(page.malformed)
        continue_ = page.metadata.continue_
        if not continue_:
            return items, malformed
