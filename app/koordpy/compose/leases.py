"""What it takes to hold a Lease."""

from collections.abc import Iterator

from koordpy.api.needs import Right
from koordpy.settings import LeaseSettings

_GROUP = "coordination.k8s.io"


def lease_rights(lease: LeaseSettings) -> Iterator[Right]:
    """Yield the rights to hold a Lease."""
    yield Right("create", "leases", _GROUP, lease.namespace)
    for verb in ("get", "patch"):
        yield Right(verb, "leases", _GROUP, lease.namespace, lease.name)
