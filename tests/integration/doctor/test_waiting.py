"""What the doctor says of pods and Reservations that wait, and of who should see to them."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from koordpy.api.core import Lease, MutatingWebhookConfiguration, Pod
from koordpy.api.reservation import Reservation
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.connection import Connection
from koordpy.doctor import pods as waiting_pods
from koordpy.doctor.examination import Question, examine
from koordpy.doctor.finding import State
from koordpy.features.feature import Part
from tests.integration.doctor.clinic import SYSTEM, Clinic, Document, clinic, shipped
from tests.integration.service.stage import serving


@pytest.fixture
async def it(tmp_path: Path) -> AsyncIterator[Clinic]:
    async with clinic(tmp_path) as made:
        yield made


def with_reservations(it: Clinic) -> str:
    """Return a file of koordpy's profiles in which Reservation is on."""
    [document] = shipped("scheduler", "koordpy-profiles.yaml")
    for profile in document["profiles"]:
        profile["plugins"]["multiPoint"] = {"enabled": [{"name": "Reservation"}]}
    file = it.folder / "reservations.yaml"
    file.write_text(yaml.safe_dump(document))
    return str(file)


def pod_that_waits(name: str, **condition: str) -> Document:
    conditions = [{"type": "PodScheduled", "status": "False", **condition}] if condition else []
    return {
        "metadata": {"name": name, "namespace": SYSTEM},
        "spec": {"schedulerName": "default-scheduler", "containers": [{"name": "c", "image": "i"}]},
        "status": {"conditions": conditions},
    }


async def reserve(it: Clinic, name: str, scheduler: str, *conditions: Document) -> None:
    """Create a Reservation without the webhooks, whose Service has no server here."""
    resource = resource_of(MutatingWebhookConfiguration)
    [webhooks] = [document async for document in it.client.list_raw(resource)]
    await it.client.delete(MutatingWebhookConfiguration, "", webhooks["metadata"]["name"])
    template = {"spec": {"schedulerName": scheduler, "containers": [{"name": "c", "image": "i"}]}}
    spec = {"owners": [{"labelSelector": {"matchLabels": {"app": "a"}}}], "ttl": "1h", "template": template}
    status = {"conditions": list(conditions)}
    await it.create(Reservation, {"metadata": {"name": name}, "spec": spec, "status": status})
    webhooks["metadata"].pop("resourceVersion")
    await it.client.create_raw(resource, "", webhooks)


async def test_pods_that_say_that_kube_scheduler_cannot_reach_koordpy(it: Clinic) -> None:
    refused = 'Post "http://127.0.0.1:10261/extender/filter": connect: connection refused'
    for name in ("web-0", "web-1"):
        await it.create(Pod, pod_that_waits(name, reason="SchedulerError", message=refused))
    found = await it.problem()
    assert (found.area, found.subject) == ("pods", f"{SYSTEM}/web-0 and 1 more")
    assert refused in found.message
    assert "urlPrefix" in found.fix


async def test_pods_without_a_scheduling_attempt(it: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
    await it.create(Pod, pod_that_waits("web"))
    assert await it.problems() == []
    monkeypatch.setattr(waiting_pods, "PATIENCE", -1.0)
    found = await it.problem()
    assert "kube-scheduler has not tried to schedule them" in found.message


async def test_pods_that_wait_for_room_are_no_problem_those_of_other_schedulers_a_note(
    it: Clinic,
) -> None:
    await it.create(Pod, pod_that_waits("full", reason="Unschedulable", message="0/2 nodes are available"))
    stranger = pod_that_waits("stranger")
    stranger["spec"]["schedulerName"] = "gpu-scheduler"
    await it.create(Pod, stranger)
    report = await it.examine()
    [note] = [found for found in report.findings if found.area == "pods" and found.state is State.NOTE]
    assert "gpu-scheduler" in note.message
    assert [found for found in report.findings if found.state is State.PROBLEM] == []


async def test_a_reservation_without_a_scheduler(it: Clinic) -> None:
    it.settings["extender"] = {"schedulerConfig": with_reservations(it), "leaderElect": False}
    await reserve(it, "lost", "nobody")
    found = await it.problem()
    assert (found.area, found.subject) == ("reservations", "lost")
    assert "template's schedulerName is 'nobody'" in found.message


async def test_a_reservation_that_finds_no_room_is_a_warning_with_the_last_attempts_words(it: Clinic) -> None:
    it.settings["extender"] = {"schedulerConfig": with_reservations(it), "leaderElect": False}
    told = "0/2 nodes are available: 2 Insufficient cpu."
    await reserve(it, "big", "default-scheduler", {"type": "Scheduled", "status": "False", "message": told})
    report = await it.examine()
    [warning] = [found for found in report.findings if found.area == "reservations"]
    assert (warning.state, warning.subject) == (State.WARNING, "big")
    assert "has no node yet: 0/2 nodes are available" in warning.message


async def test_the_lease_of_the_extender_is_checked_where_some_of_its_work_needs_a_leader(it: Clinic) -> None:
    await it.client.delete(Lease, "koordinator-system", "koord-scheduler")
    found = await it.problem()
    assert found.subject == "koordinator-system/koord-scheduler"
    assert "unschedulable pods are retried minutes late" in found.message
    it.settings["extender"] = {"schedulerConfig": with_reservations(it)}
    found = await it.problem()
    assert found.subject == "koordinator-system/koord-scheduler"
    assert "no process schedules Reservations" in found.message
    it.settings["extender"]["leaderElect"] = False
    assert await it.problems() == []


async def test_a_server_that_is_no_api_server_is_not_examined_further(tmp_path: Path) -> None:
    async with serving(tmp_path, parts=["extender", "debug"]) as stage:
        client = Client(Connection.find(server=stage.url("debug")))
        report = await examine(client, Question(stage.process.settings, (Part.EXTENDER,)))
        await client.close()
    [found] = [finding for finding in report.findings if finding.state is State.UNKNOWN]
    assert found.message == "answers 404 to /version: it may be none"
    assert "definitions" not in {finding.area for finding in report.findings}
