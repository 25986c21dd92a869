"""Labels that PreBind plugins set, against an API server of this process."""

import asyncio
import random
from collections.abc import Mapping

import pytest

from koordpy import data
from koordpy.api.core import Pod
from koordpy.api.reservation import Reservation
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.errors import Forbidden
from koordpy.embedded.apiserver import ApiServer, Fault
from koordpy.scheduling.cycle.marks import Marks
from koordpy.simulation.inprocess import ServerChannel
from tests.faults.weather import Weather

from ..worlds import pod, pod_document


class Stage:
    """An API server with one pod, whose writes may fail."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self.writes = 0
        self.server = ApiServer(crds=[data.deploy("crds")], faults=self._fault)
        self.client = Client(ServerChannel(self.server), rng=random.Random(1))

    def _fault(self, method: str, path: str) -> Fault | None:
        if method != "PATCH":
            return None
        self.writes += 1
        return self.faults.pop(0) if self.faults else None

    async def live(self) -> Pod:
        return await self.client.get(Pod, "default", "p")

    async def labels(self) -> Mapping[str, str]:
        return (await self.live()).metadata.labels

    def marks(self, pod: Pod, **labels: str) -> Marks:
        return Marks(pod, labels, {}, self.client, random.Random(1))


@pytest.fixture
async def stage() -> Stage:
    made = Stage()
    await made.server.load()
    document = pod_document("p")
    document["metadata"]["labels"] = {"app": "web", "tier": "old"}
    del document["spec"]["nodeName"]
    document["spec"]["containers"][0]["image"] = "i"
    await made.client.create_raw(resource_of(Pod), "default", document)
    return made


async def test_only_labels_that_differ_are_written(stage: Stage) -> None:
    assert (await stage.marks(await stage.live(), app="web").set()).is_success
    assert stage.writes == 0
    assert (await stage.marks(await stage.live(), app="web", tier="new").set()).is_success
    assert stage.writes == 1
    assert await stage.labels() == {"app": "web", "tier": "new"}


async def test_marks_are_reverted(stage: Stage) -> None:
    marks = stage.marks(await stage.live(), tier="new", extra="yes")
    await marks.set()
    assert await stage.labels() == {"app": "web", "tier": "new", "extra": "yes"}
    await marks.take_back()
    await marks.take_back()
    assert await stage.labels() == {"app": "web", "tier": "old"}
    assert stage.writes == 2


async def test_a_write_with_a_lost_answer_is_reverted_too(stage: Stage) -> None:
    stage.faults = [Fault(status=403, after=True)]
    marks = stage.marks(await stage.live(), extra="yes")
    assert not (await marks.set()).is_success
    await marks.take_back()
    assert await stage.labels() == {"app": "web", "tier": "old"}


async def test_later_changes_are_kept(stage: Stage) -> None:
    marks = stage.marks(await stage.live(), tier="new", extra="yes")
    await marks.set()
    await stage.client.patch(Pod, "default", "p", {"metadata": {"labels": {"tier": "newer"}}})
    await marks.take_back()
    assert await stage.labels() == {"app": "web", "tier": "newer"}


async def test_a_bound_pod_keeps_its_labels(stage: Stage) -> None:
    marks = stage.marks(await stage.live(), extra="yes")
    await marks.set()
    await stage.client.bind(await stage.live(), "n")
    await marks.take_back()
    assert (await stage.labels())["extra"] == "yes"


@pytest.mark.parametrize("node", ["", "n"])
async def test_labels_of_a_reservation_are_reverted_unless_it_is_bound(stage: Stage, node: str) -> None:
    spec = {"template": {"spec": {"containers": []}}, "owners": [{"labelSelector": {}}], "ttl": "1h"}
    resource = resource_of(Reservation)
    document = {"apiVersion": resource.api_version, "kind": "Reservation", "metadata": {"name": "r"}}
    await stage.client.create_raw(resource, "", {**document, "spec": spec})
    live = await stage.client.get(Reservation, "", "r")
    marks = Marks(live, {"extra": "yes"}, {}, stage.client, random.Random(1))
    assert (await marks.set()).is_success
    if node:
        await stage.client.patch_status(Reservation, "", "r", {"status": {"nodeName": node}})
    await marks.take_back()
    labels = (await stage.client.get(Reservation, "", "r")).metadata.labels
    assert labels == ({"extra": "yes"} if node else {})


async def test_a_replacement_pod_is_not_marked(stage: Stage) -> None:
    old = await stage.live()
    await stage.client.delete(Pod, "default", "p", grace_period_seconds=0)
    document = pod_document("p", uid="")
    del document["metadata"]["uid"], document["spec"]["nodeName"]
    document["spec"]["containers"][0]["image"] = "i"
    await stage.client.create_raw(resource_of(Pod), "default", document)
    assert not (await stage.marks(old, extra="yes").set()).is_success
    assert await stage.labels() == {}


async def test_without_a_client_labels_cannot_be_set() -> None:
    status = await Marks(pod("p"), {"a": "b"}, {}, None, random.Random(1)).set()
    assert status.message == "no client to write labels of p with: {'a': 'b'}"


@pytest.mark.parametrize("fault", [Fault(status=409), Fault(cut=True), Fault(cut=True, after=True)], ids=str)
async def test_a_write_that_fails_temporarily_is_retried(stage: Stage, fault: Fault) -> None:
    weather = Weather(stage.server, lambda *_: None)
    marks = Marks(await stage.live(), {"extra": "yes"}, {}, Client(weather, attempts=1), random.Random(1))
    weather.troubles.append(("PATCH", "/pods/p", fault))
    assert (await marks.set()).is_success
    assert (await stage.labels())["extra"] == "yes"
    weather.troubles.append(("PATCH", "/pods/p", fault))
    await marks.take_back()
    assert not weather.troubles
    assert await stage.labels() == {"app": "web", "tier": "old"}


async def test_a_rejected_write_has_a_reason(stage: Stage) -> None:
    stage.faults = [Fault(status=403)]
    status = await stage.marks(await stage.live(), extra="yes").set()
    assert isinstance(status.error, Forbidden)
    assert status.message == str(status.error)


async def test_a_pod_that_is_being_deleted_is_not_marked(stage: Stage) -> None:
    marks = stage.marks(await stage.live(), extra="yes")
    await stage.client.patch(Pod, "default", "p", {"metadata": {"finalizers": ["example.com/kept"]}})
    await stage.client.delete(Pod, "default", "p", grace_period_seconds=0)
    assert (await marks.set()).message == "pod is being deleted"


async def test_labels_set_by_others_are_not_reverted(stage: Stage) -> None:
    marks = stage.marks(await stage.live(), extra="yes")
    await stage.client.patch(Pod, "default", "p", {"metadata": {"labels": {"extra": "yes"}}})
    await marks.take_back()  # nothing was set yet
    assert (await stage.labels())["extra"] == "yes"
    await marks.set()
    await marks.take_back()
    await stage.client.patch(Pod, "default", "p", {"metadata": {"labels": {"extra": "yes"}}})
    await marks.take_back()  # that was already reverted
    assert (await stage.labels())["extra"] == "yes"


async def test_a_change_during_the_revert_is_kept(stage: Stage) -> None:
    marks = stage.marks(await stage.live(), tier="new", extra="yes")
    await marks.set()
    stage.faults = [Fault(held=asyncio.Event())]
    taking_back = asyncio.ensure_future(marks.take_back())
    held = stage.faults[0].held
    assert held is not None
    while stage.faults:
        await asyncio.sleep(0)
    await stage.client.patch(Pod, "default", "p", {"metadata": {"labels": {"tier": "newer"}}})
    held.set()
    await taking_back
    assert await stage.labels() == {"app": "web", "tier": "newer"}


async def test_an_annotation_that_existed_before_is_not_reverted(stage: Stage) -> None:
    await stage.client.patch(Pod, "default", "p", {"metadata": {"annotations": {"a": "1", "b": "1"}}})
    marks = Marks(await stage.live(), {}, {"a": "1", "b": "2"}, stage.client, random.Random(1))
    await marks.set()
    assert (await stage.live()).metadata.annotations == {"a": "1", "b": "2"}
    await marks.take_back()
    assert (await stage.live()).metadata.annotations == {"a": "1", "b": "1"}
    marks = Marks(await stage.live(), {}, {"a": "1"}, stage.client, random.Random(1))
    await marks.set()
    writes = stage.writes
    await marks.take_back()
    assert stage.writes == writes
