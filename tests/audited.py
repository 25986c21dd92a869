"""Audits of the clusters of tests: at no moment may anything be handed out twice in them.

Every embedded API server is followed, write by write, from its creation (`followed_servers`, which
`tests/conftest.py` does for the folders that it names): what is wrong after a write was wrong
at that moment, because the writes of one server have one order. A test ends with an error if one of its
clusters was. Tests that hand something out twice on purpose are named in `tests/dirty_books.py`; a story that
crowds single nodes, or lowers single quotas, names these in `assert_clean`.

Real control planes are audited by `tests/e2e/audited_planes.py`, and followed with `tests/moments.py`.
"""

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary, ref

import pytest

from koordpy.api.core import Pod
from koordpy.api.decoding import DecodeError
from koordpy.api.koordinator import ElasticQuota
from koordpy.api.meta import KubeObject
from koordpy.api.reservation import Reservation
from koordpy.api.scheme import decode, resource_of
from koordpy.audit.auditing import audit
from koordpy.audit.auditor import Auditor
from koordpy.audit.finding import Finding, Severity
from koordpy.audit.objects import TYPES
from koordpy.embedded.apiserver import ApiServer
from koordpy.embedded.apiserver.catalog import Catalog, Served
from koordpy.embedded.apiserver.storage import Event

_BY_NAME = {(resource_of(type_).group, resource_of(type_).plural): type_ for type_ in TYPES}
_MOST_PODS = 300
"""With more pods than that, quotas and Reservations are audited in the end only: that takes all pods."""


class Moments:
    """What is wrong in a cluster, after each of its writes in their order."""

    def __init__(self) -> None:
        self._auditor = Auditor()
        self._states: dict[str, object] = {}
        self._shared = 0
        self._pods = 0
        self.found: dict[tuple[str, ...], Finding] = {}
        """Every error that there was at some moment, as it was first seen."""
        self._told: set[tuple[str, ...]] = set()
        self.aside: set[str] = set()
        """Nodes and quotas whose errors are on purpose."""

    def put(self, obj: KubeObject, *, looks: bool = True) -> None:
        """Add an object, or replace its earlier version; audit what it touches unless `looks` is false."""
        state = _state(obj)
        key = f"{type(obj).__name__} {obj.metadata.key}"
        before = self._states.get(key)
        self._states[key] = state
        if before is None:
            self._count(obj, 1)
        if before != state:
            self._auditor.apply(obj)
            if looks:
                self._look(obj)

    def remove(self, obj: KubeObject) -> None:
        """Forget an object; nothing of a node is handed out twice because of that."""
        if self._states.pop(f"{type(obj).__name__} {obj.metadata.key}", None) is not None:
            self._count(obj, -1)
            self._auditor.remove(obj)

    def now(self) -> list[Finding]:
        """Return the errors of this moment."""
        return _errors(audit(self._auditor.whole()).findings)

    def _count(self, obj: KubeObject, number: int) -> None:
        self._shared += number * isinstance(obj, ElasticQuota | Reservation)
        self._pods += number * isinstance(obj, Pod)

    def _look(self, obj: KubeObject) -> None:
        self._add(self._auditor.findings())
        if self._shared and self._pods <= _MOST_PODS and isinstance(obj, Pod | ElasticQuota | Reservation):
            self._add(self._auditor.findings_of_all())

    def _add(self, findings: list[Finding]) -> None:
        for found in _errors(findings):
            self.found.setdefault(found.identity, found)

    def news(self) -> list[Finding]:
        """Return what was found since this was last asked."""
        news = [found for identity, found in self.found.items() if identity not in self._told]
        self._told.update(self.found)
        return news


def unexpected(findings: Iterable[Finding], aside: Collection[str]) -> list[str]:
    """Return findings as texts, without those of nodes and quotas that are aside."""
    return [
        str(found)
        for found in findings
        if found.node not in aside and not any(owner.name in aside for owner in found.owners)
    ]


def _state(obj: KubeObject) -> object:
    """Return what an audit sees of an object; most updates of pods change nothing of it."""
    meta = obj.metadata
    if isinstance(obj, Pod):
        statuses = obj.status.container_statuses
        resources = [(each.name, each.resources, each.allocated_resources) for each in statuses]
        about = (meta.uid, meta.annotations, meta.labels, meta.deletion_timestamp is None)
        return about, obj.spec, resources, obj.is_terminal, obj.status.phase == "Running"
    return meta.resource_version


def _errors(findings: list[Finding]) -> list[Finding]:
    return [found for found in findings if found.severity is Severity.ERROR]


class FollowedServers:
    """The embedded API servers that live, and what is known to be wrong in them."""

    def __init__(self) -> None:
        self._moments: WeakKeyDictionary[Catalog, Moments] = WeakKeyDictionary()
        self._unreported: list[tuple[ref[Catalog], Moments]] = []
        self._tables: WeakKeyDictionary[object, bool] = WeakKeyDictionary()

    def of(self, server: ApiServer) -> Moments:
        """Return what is known of a server. Raises KeyError if it was made before servers were followed."""
        return self._moments[server.catalog]

    def serves(self, catalog: Catalog, served: Served) -> None:
        """Follow the objects of a resource, if they are audited."""
        type_ = _BY_NAME.get((served.group, served.plural))
        if type_ is None or not served.stored or served.table in self._tables:
            return
        self._tables[served.table] = True
        moments = self._moments.get(catalog)
        if moments is None:
            moments = self._moments[catalog] = Moments()
            self._unreported.append((ref(catalog), moments))

        def event(seen: Event) -> None:
            try:
                obj = decode(type_, seen.record.raw)
            except DecodeError:
                return  # informers leave it out, too
            (moments.remove if seen.type == "DELETED" else moments.put)(obj)

        served.table.subscribe(event)

    def report(self) -> list[str]:
        """Return what was wrong at any moment since the last report, and has not been reported."""
        found: list[str] = []
        living = []
        for catalog, moments in self._unreported:
            found += unexpected(moments.news(), moments.aside)
            if catalog() is not None:
                living.append((catalog, moments))
        self._unreported = living
        return found


_followed = FollowedServers()


@contextmanager
def followed_servers() -> Iterator[FollowedServers]:
    """Follow every embedded API server that is made meanwhile."""
    add = Catalog.add

    def add_and_follow(catalog: Catalog, served: Served) -> None:
        add(catalog, served)
        _followed.serves(catalog, served)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Catalog, "add", add_and_follow)
        yield _followed


class Crowded(set[str]):
    """Nodes that are crowded, or quotas that were lowered, on purpose; `ever` has those of any time."""

    def __init__(self) -> None:
        super().__init__()
        self.ever: set[str] = set()

    def add(self, name: str, /) -> None:
        super().add(name)
        self.ever.add(name)


def assert_clean(server: ApiServer, *crowded: Crowded) -> None:
    """Raise AssertionError if an audit finds errors now, or would have after any write until now.

    Errors of nodes or quotas that are `crowded` do not count; those of moments do not if they ever were.
    Warnings do not count: a test may end before a status follows, and without what keeps it.
    """
    moments = _followed.of(server)
    for names in crowded:
        moments.aside |= names.ever
    found = unexpected(moments.found.values(), moments.aside)
    found += unexpected(moments.now(), set[str]().union(*crowded))
    assert not found, "\n".join(dict.fromkeys(found))
