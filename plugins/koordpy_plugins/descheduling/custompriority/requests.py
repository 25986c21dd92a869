"""What CustomPriority compares pods by: the requests of their containers alone.

Init containers and overhead do not count, unlike in checks whether a pod fits a node. Source: Koordinator,
`pkg/descheduler/framework/plugins/custompriority`.
"""

from collections.abc import Iterable

from koordpy.api import quantity
from koordpy.api.core import Pod

_UNIT = 1_000_000_000
_MILLI = 1_000_000

SortKey = tuple[int, int, str, str]


def container_requests(pod: Pod) -> dict[str, int]:
    """Return the sum of the containers' requests, in billionths."""
    total: dict[str, int] = {}
    for container in pod.spec.containers:
        for name, amount in container.resources.requests.items():
            total[name] = total.get(name, 0) + quantity.nano_value(amount)
    return total


def in_milli(nanos: int) -> int:
    """Return an amount in thousandths, rounded up."""
    return -(-nanos // _MILLI)


def in_units(nanos: int) -> int:
    """Return an amount as a whole number, rounded up."""
    return -(-nanos // _UNIT)


def smallest_first(pods: Iterable[Pod]) -> list[Pod]:
    """Return pods by cpu, memory, namespace and name: more small pods than big ones find room."""
    return sorted(pods, key=_key)


def _key(pod: Pod) -> SortKey:
    requests = container_requests(pod)
    return (
        in_milli(requests.get("cpu", 0)),
        in_units(requests.get("memory", 0)),
        pod.metadata.namespace,
        pod.metadata.name,
    )
