"""Audits of the clusters that tests had: nothing may be handed out twice in them.

Tests whose embedded API server is stopped at their end need nothing but the fixture `audited`, which the
`conftest.py` of their folder imports. Those with an API server that never listens call `assert_clean`. A test
that hands something out twice on purpose says so with the marker `dirty_books(reason)`.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from koordpy.api.decoding import DecodeError
from koordpy.api.meta import KubeObject
from koordpy.api.scheme import decode, resource_of
from koordpy.audit.auditing import audit
from koordpy.audit.finding import Finding, Severity
from koordpy.audit.objects import TYPES, Objects
from koordpy.cluster.client import Client
from koordpy.commands.audit import listed
from koordpy.commands.audit_watch import Watch
from koordpy.embedded.apiserver import ApiServer


def assert_clean(server: ApiServer, *, aside: Collection[str] = ()) -> None:
    """Raise AssertionError if an audit finds errors; those of nodes or quotas that are `aside` do not count.

    Warnings do not count: a test may end before a status follows, and without what keeps it.
    """
    found = [str(error) for error in errors(server) if not _is_aside(error, aside)]
    assert not found, "\n".join(found)


def errors(server: ApiServer) -> list[Finding]:
    """Return the errors that an audit of a server's objects finds; it may be stopped."""
    return _errors(objects_of(server))


def objects_of(server: ApiServer) -> Objects:
    """Return the objects of a server; those that cannot be decoded are left out, as by informers."""
    by_name = {(resource_of(type_).group, resource_of(type_).plural): type_ for type_ in TYPES}
    found: dict[type[KubeObject], list[Any]] = {}
    for served in server.catalog:
        type_ = by_name.get((served.group, served.plural))
        if type_ is None or not served.stored:
            continue
        for record in served.table:
            try:
                found.setdefault(type_, []).append(decode(type_, record.raw))
            except DecodeError:
                continue
    return Objects.of(found)


def _errors(objects: Objects) -> list[Finding]:
    return [found for found in audit(objects).findings if found.severity is Severity.ERROR]


def _is_aside(error: Finding, aside: Collection[str]) -> bool:
    return error.node in aside or any(owner.name in aside for owner in error.owners)


@pytest.fixture(autouse=True)
def audited(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Audit the objects of every embedded API server that is stopped."""
    if request.node.get_closest_marker("dirty_books") is not None:
        yield
        return
    found: list[str] = []
    stop = ApiServer.stop

    async def stop_and_audit(server: ApiServer) -> None:
        await stop(server)
        found.extend(str(error) for error in errors(server))

    monkeypatch.setattr(ApiServer, "stop", stop_and_audit)
    yield
    assert not found, "\n".join(found)


async def assert_cluster_clean(client: Client) -> None:
    """As `assert_clean`, for a cluster that is reached with a client."""
    found = [str(error) for error in _errors(await listed(client))]
    assert not found, "\n".join(found)


@asynccontextmanager
async def always_clean(client: Client, recheck: float = 2.0) -> AsyncIterator[None]:
    """Raise AssertionError at the end if an audit that follows the cluster meanwhile finds errors.

    What is wrong for less than `recheck` seconds does not count, since events of several types are not of one
    moment; with 0 nodes are audited at every event.
    """
    found: list[Finding] = []
    stopping = asyncio.Event()
    task = asyncio.create_task(Watch(client, recheck, found.append).run(stopping))
    try:
        yield
    finally:
        stopping.set()
        await task
    errors = [str(each) for each in found if each.severity is Severity.ERROR]
    assert not errors, "\n".join(errors)
