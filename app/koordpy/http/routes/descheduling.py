"""`/apis/v1/descheduling`: the last rounds of the descheduler, and what is known about a node or a pod.

`rounds?watch=true` returns rounds as they end, as lines of JSON.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, HTTPException, Query
from fastapi.responses import StreamingResponse

from koordpy.api.output_model import OutputModel
from koordpy.descheduling.engine.descheduler import Descheduler
from koordpy.descheduling.explain.decisions import Round
from koordpy.descheduling.explain.extracts import Verdict, eventful, extract
from koordpy.descheduling.toolkit.nodes import is_ready

from .parameters import known_parameters

_ABSENT: Final = "this process does not run the descheduler"

_MOST_WATCHES: Final = 16

_HEARTBEAT: Final = 15.0
"""Seconds without a round after which a watch sends an empty line."""

_MOST_PODS: Final = 500
"""Pods of a node that the filters are asked about."""

_Limit = Annotated[int, Query(ge=1, le=10_000)]


class RoundsState(OutputModel):
    """Whether rounds run in this process."""

    rounds: int
    """How many are remembered."""
    waiting: str
    """What they wait for, such as a Lease that another process holds; empty if they run."""


class PodVerdicts(OutputModel):
    """What the filters of each profile that selects the pod's node say about the pod now."""

    pod: str
    verdicts: list[Verdict]


class NodeStory(OutputModel):
    """What rounds say about a node, newest first, and what the filters say about its pods now."""

    node: str
    exists: bool
    ready: bool
    unschedulable: bool
    profiles: list[str]
    """The profiles that select the node."""
    rounds: list[Round]
    """The newest, and others that tried to evict a pod of the node."""
    quiet_rounds: int
    """Other remembered rounds that looked at the node, and tried nothing."""
    pods: list[PodVerdicts]
    """The pods that have not ended, the first 500."""


class PodStory(OutputModel):
    """What rounds say about a pod and its node, newest first, and what the filters say now."""

    pod: str
    exists: bool
    node: str
    """Its node; that of its last attempted eviction if the pod is gone."""
    rounds: list[Round]
    """The newest, and others that tried to evict the pod."""
    quiet_rounds: int
    """Other remembered rounds that looked at the pod or its node, and did not try to evict the pod."""
    verdicts: list[Verdict]
    """Those of the profiles that select its node; of all profiles if it waits for a node."""


def router(descheduler: Callable[[], Descheduler | None], waiting: Callable[[], str] = str) -> APIRouter:
    """Return the routes; `descheduler` is None if none runs in this process."""
    routes = APIRouter(dependencies=[Depends(known_parameters)])
    watches = 0

    def running(what: str) -> Descheduler:
        found = descheduler()
        if found is None:
            raise HTTPException(404, f"{what}: {_ABSENT}" if what else _ABSENT)
        return found

    @routes.get("/apis/v1/descheduling/state")
    async def state() -> RoundsState:
        return RoundsState(rounds=len(running("").decisions.rounds), waiting=waiting())

    @routes.get("/apis/v1/descheduling/rounds", response_model=list[Round])
    async def rounds(
        limit: _Limit = 50,
        pod: Annotated[str, Query(description="NAMESPACE/NAME of a pod that a round names.")] = "",
        node: Annotated[str, Query(description="Only what concerns this node.")] = "",
        plugin: Annotated[str, Query(description="Only runs of this plugin.")] = "",
        details: Annotated[bool, Query(description="Include the reports of plugins.")] = True,
        watch: Annotated[bool, Query(description="Wait for rounds, and return each when it ends.")] = False,
    ) -> Any:
        """Lists the newest rounds first; a watch has only later ones."""
        nonlocal watches

        def chosen(some: list[Round]) -> list[Round]:
            return extract(some, pod=pod, node=node, plugin=plugin, details=details)

        if not watch:
            known = descheduler()
            some = [] if known is None else chosen(list(known.decisions.rounds))[: -limit - 1 : -1]
            return StreamingResponse(_array(some), media_type="application/json")
        found = running("nothing to watch")
        if watches >= _MOST_WATCHES:
            raise HTTPException(429, f"{watches} watches of rounds are open already; try again later")

        async def lines() -> AsyncIterator[bytes]:
            nonlocal watches
            watches += 1
            try:
                async for each in _ends(found):
                    for model in chosen([] if each is None else [each]):
                        yield model.model_dump_json().encode() + b"\n"
                    if each is None:
                        yield b"\n"
            finally:
                watches -= 1

        return StreamingResponse(
            lines(), media_type="application/x-ndjson", headers={"cache-control": "no-cache"}
        )

    @routes.get("/apis/v1/descheduling/rounds/{number}")
    async def one(number: int) -> Round:
        for found in running(f"no round {number}").decisions.rounds:
            if found.number == number:
                return found
        raise HTTPException(404, f"no round {number} is remembered")

    @routes.get("/apis/v1/descheduling/nodes/{name}")
    async def about_node(name: str, limit: _Limit = 3) -> NodeStory:
        known = running(f"nothing is known about node {name}")
        node = known.node(name)
        found, quiet = eventful(extract(known.decisions.rounds, node=name), limit)
        if node is None and not found:
            raise HTTPException(404, f"node {name} does not exist, and no remembered round names it")
        pods = [] if node is None else known.pods_of(name)[:_MOST_PODS]
        return NodeStory(
            node=name,
            exists=node is not None,
            ready=node is not None and is_ready(node),
            unschedulable=node is not None and node.spec.unschedulable,
            profiles=[] if node is None else known.profiles_of(node),
            rounds=found,
            quiet_rounds=quiet,
            pods=[PodVerdicts(pod=pod.metadata.key, verdicts=known.verdicts(pod)) for pod in pods],
        )

    @routes.get("/apis/v1/descheduling/pods/{namespace}/{name}")
    async def about_pod(namespace: str, name: str, limit: _Limit = 3) -> PodStory:
        key = f"{namespace}/{name}"
        known = running(f"nothing is known about pod {key}")
        pod = known.pod(key)
        rounds = known.decisions.rounds
        node = _last_node(rounds, key) if pod is None else pod.spec.node_name
        found, quiet = eventful(extract(rounds, pod=key, pods_node=node), limit)
        if pod is None and not node:
            raise HTTPException(404, f"pod {key} does not exist, and no remembered round names it")
        return PodStory(
            pod=key,
            exists=pod is not None,
            node=node,
            rounds=found,
            quiet_rounds=quiet,
            verdicts=[] if pod is None else known.verdicts(pod),
        )

    return routes


async def _array(rounds: Iterable[Round]) -> AsyncIterator[bytes]:
    """Yield a JSON array round by round, as one of a large cluster has megabytes; others work in between."""
    before = b"["
    for each in rounds:
        yield before + each.model_dump_json().encode()
        before = b","
        await asyncio.sleep(0)
    yield b"[]" if before == b"[" else b"]"


async def _ends(descheduler: Descheduler) -> AsyncIterator[Round | None]:
    """Yield rounds as they end, and None where none has ended for a while."""
    rounds = descheduler.decisions.rounds
    last = max((each.number for each in rounds if each.ended), default=0)
    while True:
        if not await descheduler.decisions.next_end(_HEARTBEAT):
            yield None
            continue
        for each in [each for each in rounds if each.ended and each.number > last]:
            last = each.number
            yield each


def _last_node(rounds: Iterable[Round], key: str) -> str:
    """Return the node on which a round last named a pod; empty if none did."""
    for each in extract(rounds, pod=key, details=False)[::-1]:
        for run in each.runs:
            nodes = [item.node for item in run.evictions] + [item.node for item in run.not_evicted]
            if nodes:
                return nodes[0]
    return ""
