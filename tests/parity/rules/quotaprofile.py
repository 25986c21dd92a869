"""The quota profile controller over several reconciles, with objects in memory."""

import asyncio
from typing import Any

from koordpy.api import json_merge, resource_list
from koordpy.api.core import Node
from koordpy.api.koordinator import ElasticQuota, ElasticQuotaProfile
from koordpy.api.meta import KubeObject
from koordpy.api.plugin import NoArgs
from koordpy.api.scheme import DecodeError, decode
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.errors import ServerError
from koordpy.controllers.interface import Handle
from koordpy.controllers.reconcile import ReconcileError
from koordpy.lib.feature_gates import FeatureGates
from koordpy_plugins.controllers.quotaprofile.plugin import QuotaProfileController

PREFIX = "quota.scheduling.koordinator.sh/"
LISTS = (f"{PREFIX}total-resource", f"{PREFIX}unschedulable-resource")


class World:
    """A cluster in memory, the controller on it, and what happened in a round."""

    def __init__(self, case_in: dict[str, Any]) -> None:
        self.cluster = Cluster()
        self.documents: dict[tuple[type[KubeObject], str], dict[str, Any]] = {}
        self.fault, self.event, self.writes = "", "", list[str]()
        handle = Handle(self.cluster, FeatureGates({}), connected=self)  # type: ignore[arg-type]
        handle.report = self.report  # type: ignore[method-assign]
        self.controller = QuotaProfileController(NoArgs(), handle)
        self.controller.profiles = Reads(self, "getProfile", self.controller.profiles)  # type: ignore[assignment]
        self.controller.quotas = Reads(self, "getQuota", self.controller.quotas)  # type: ignore[assignment]
        self.controller.nodes = Reads(self, "listNodes", self.controller.nodes)  # type: ignore[assignment]
        self.fill(case_in)

    def report(self, regarding: KubeObject, reason: str, message: str, *, type_: str = "Warning") -> None:
        self.event = f"{type_} {reason} {message}"

    def fill(self, given: dict[str, Any]) -> None:
        for type_, name in ((Node, "nodes"), (ElasticQuotaProfile, "profiles"), (ElasticQuota, "quotas")):
            for document in given.get(name) or ():
                self.put(type_, document)

    def put(self, type_: type[KubeObject], document: dict[str, Any]) -> None:
        obj = decode(type_, document)
        self.documents[type_, f"{obj.metadata.namespace}/{obj.metadata.name}"] = document
        self.cluster.store(type_).put(obj)

    def drop(self, type_: type[KubeObject], key: str) -> None:
        self.documents.pop((type_, key if type_ is not Node else f"/{key}"), None)
        self.cluster.store(type_).discard(key.removeprefix("/"))

    def fails(self, fault: str) -> None:
        if self.fault == fault:
            raise ServerError("", "", 500, "InternalError", "boom", {}, None)

    # -- the writes of a client ---------------------------------------------------------------------------

    async def create_raw(self, resource: Any, namespace: str, document: dict[str, Any]) -> None:
        self.fails("createQuota")
        self.put(ElasticQuota, document)
        self.writes.append("createQuota")

    async def patch(self, type_: type[KubeObject], namespace: str, name: str, patch: dict[str, Any]) -> None:
        write = "updateProfile" if type_ is ElasticQuotaProfile else "updateQuota"
        self.fails(write)
        self.put(type_, json_merge.apply(self.documents[type_, f"{namespace}/{name}"], patch))
        self.writes.append(write)

    # -- rounds -------------------------------------------------------------------------------------------

    async def round(self, given: dict[str, Any]) -> dict[str, Any]:
        self.fill(given)
        for type_, name in (
            (Node, "delNodes"),
            (ElasticQuotaProfile, "delProfiles"),
            (ElasticQuota, "delQuotas"),
        ):
            for key in given.get(name) or ():
                self.drop(type_, key)
        self.writes, self.event, self.fault = [], "", given.get("fault", "")
        key = given["reconcile"]
        out: dict[str, Any] = {}
        try:
            out["requeueAfterSeconds"] = await self.controller.reconcile(key) or 0
        except (ReconcileError, ServerError):
            out["error"] = True
        self.fault = ""
        if self.writes:
            out["writes"] = self.writes
        if self.event:
            out["event"] = self.event
        profile = self.documents.get((ElasticQuotaProfile, key))
        if profile is None:
            return out
        out["profileLabels"] = profile["metadata"].get("labels")
        quota = self.documents.get(
            (ElasticQuota, f"{key.rpartition('/')[0]}/{profile['spec'].get('quotaName', '')}")
        )
        if quota is not None:
            metadata, spec = quota["metadata"], quota.get("spec") or {}
            out["quota"] = {
                "labels": metadata.get("labels"),
                "annotations": metadata.get("annotations"),
                "min": spec.get("min"),
                "max": spec.get("max"),
            }
        return out


class Reads:
    """A store that a fault makes unreadable."""

    def __init__(self, world: World, fault: str, store: Any) -> None:
        self._world, self._fault, self._store = world, fault, store

    def get(self, namespace: str, name: str) -> Any:
        self._world.fails(self._fault)
        return self._store.get(namespace, name)

    def __iter__(self) -> Any:
        self._world.fails(self._fault)
        return iter(self._store)


def run(case_in: dict[str, Any], tag: str | None) -> dict[str, Any]:
    async def rounds() -> list[dict[str, Any]]:
        world = World(case_in)
        return [await world.round(given) for given in case_in["rounds"]]

    return {"rounds": asyncio.run(rounds())}


def same(ours: dict[str, Any], expected: dict[str, Any], case_in: dict[str, Any]) -> bool:
    return len(ours["rounds"]) == len(expected["rounds"]) and all(
        map(same_round, ours["rounds"], expected["rounds"])
    )


def same_round(ours: dict[str, Any], expected: dict[str, Any]) -> bool:
    """A rewrite of an equal object is not expected of anybody."""
    expected = {
        **expected,
        "writes": [item for item in expected.get("writes") or () if item != "rewriteQuota"],
    }
    ours = {"writes": [], **ours}
    names = ("error", "requeueAfterSeconds", "event", "writes")
    if any(ours.get(name) != expected.get(name) for name in names):
        return False
    if (ours.get("profileLabels") or {}) != (expected.get("profileLabels") or {}):
        return False
    left, right = ours.get("quota"), expected.get("quota")
    return left is right or (
        left is not None
        and right is not None
        and (left["labels"] or {}) == (right["labels"] or {})
        and annotations(left) == annotations(right)
        and all(by_value(left.get(name)) == by_value(right.get(name)) for name in ("min", "max"))
    )


def annotations(quota: dict[str, Any]) -> dict[str, Any]:
    return {
        name: listed(text) if name in LISTS else text for name, text in (quota["annotations"] or {}).items()
    }


def listed(text: str) -> Any:
    """A resource list by value; what is none, as it is written."""
    try:
        return resource_list.parse(text)
    except DecodeError:
        return text


def by_value(amounts: dict[str, Any] | None) -> Any:
    return resource_list.from_wire(amounts or {})
