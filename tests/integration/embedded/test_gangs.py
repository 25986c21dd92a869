"""Gangs whose pods are made by the controllers of workloads, with koordpy beside kube-scheduler.

The whole control plane is the embedded one, on simulated time; koordpy is called as by kube-scheduler.
"""

import asyncio
import copy
from typing import Any

import pytest

from .ganging import CRDS, GANG, GangCluster
from .living import Document, deployment, live, name_of
from .test_jobs import is_over, job, status


class Gangs(GangCluster):
    """A cluster whose kube-scheduler calls koordpy with Coscheduling. Each node has room for four members."""

    plugins = ("Coscheduling",)

    def placed(self) -> list[str]:
        """The names of pods with a node that have not ended."""
        return [
            name_of(pod)
            for pod in self.pods()
            if pod["spec"].get("nodeName") and pod["status"].get("phase") not in ("Succeeded", "Failed")
        ]

    async def settles(self, seconds: float = 30.0) -> list[str]:
        """Let time pass, and return what has a node then."""
        await asyncio.sleep(seconds)
        return self.placed()


def member(document: Document, minimum: int, **notes: str) -> Document:
    """Let all pods of a workload be members of one gang, each with a quarter of a node."""
    made = copy.deepcopy(document)
    template = made["spec"]["template"]
    told = {"name": "g", "min-available": str(minimum), **notes}
    template.setdefault("metadata", {})["annotations"] = {
        f"{GANG}/{key}": value for key, value in told.items()
    }
    template["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "4"}}
    return made


def story_of_gangs(story: Any, *nodes: str) -> None:
    live(story, nodes=nodes or ("a",), kind=Gangs, crds=CRDS)


FOREVER = ("sleep", "24h")


@pytest.mark.parametrize("mode", ["NonIndexed", "Indexed"])
def test_a_job_runs_once_there_is_room_for_all_of_its_pods(mode: str) -> None:
    async def story(cluster: Gangs) -> None:
        shape: Any = {"completions": 6, "parallelism": 6, "completionMode": mode}
        await cluster.create("jobs", member(job(command=("sleep", "10"), **shape), 6))
        assert await cluster.settles() == []
        assert len(cluster.pods()) == 6
        await cluster.add_node("b")
        await cluster.until(lambda: len(cluster.placed()) == 6)
        await cluster.until(lambda: is_over(cluster))

    story_of_gangs(story)


def test_a_job_has_a_gang_while_it_is_not_suspended() -> None:
    async def story(cluster: Gangs) -> None:
        await cluster.create(
            "jobs", member(job(command=FOREVER, completions=4, parallelism=4, suspend=True), 4)
        )
        assert await cluster.settles() == []
        await cluster.patch("jobs", "work", {"spec": {"suspend": False}})
        await cluster.until(lambda: len(cluster.placed()) == 4)
        other = member(job("other", FOREVER, completions=4, parallelism=4), 4, name="other")
        await cluster.create("jobs", other)
        assert len(await cluster.settles()) == 4
        await cluster.patch("jobs", "work", {"spec": {"suspend": True}})
        await cluster.until(lambda: len(cluster.pods(**{"job-name": "other"})) == len(cluster.placed()) == 4)
        assert all(name.startswith("other-") for name in await cluster.settles())

    story_of_gangs(story)


@pytest.mark.parametrize("policy", ["once-satisfied", "waiting-and-running"])
def test_a_replaced_member_does_not_wait_for_members_that_run(policy: str) -> None:
    async def story(cluster: Gangs) -> None:
        shape: Any = {"completions": 4, "parallelism": 4, "completionMode": "Indexed", "backoffLimit": 3}
        await cluster.create("jobs", member(job(command=FOREVER, **shape), 4, **{"match-policy": policy}))
        first = await cluster.until(lambda: len(cluster.placed()) == 4 and cluster.placed())
        await cluster.delete("pods", first[0])
        await cluster.until(lambda: first[0] not in cluster.placed() and len(cluster.placed()) == 4)

    story_of_gangs(story)


def test_with_only_waiting_a_single_replaced_member_waits_for_the_others() -> None:
    """Koordinator's rule: members that run do not count, so the whole gang must be replaced."""

    async def story(cluster: Gangs) -> None:
        shape: Any = {"completions": 4, "parallelism": 4, "completionMode": "Indexed", "backoffLimit": 8}
        notes = {"match-policy": "only-waiting"}
        await cluster.create("jobs", member(job(command=FOREVER, **shape), 4, **notes))
        first = await cluster.until(lambda: len(cluster.placed()) == 4 and cluster.placed())
        await cluster.delete("pods", first[0])
        left = await cluster.settles(60.0)
        assert left == first[1:]
        for name in left:
            await cluster.delete("pods", name)
        await cluster.until(lambda: len(cluster.placed()) == 4)

    story_of_gangs(story)


def test_an_elastic_job_begins_with_its_minimum_and_grows() -> None:
    async def story(cluster: Gangs) -> None:
        await cluster.create("jobs", member(job(command=FOREVER, completions=6, parallelism=6), 3))
        await cluster.until(lambda: len(cluster.placed()) == 4)
        assert len(await cluster.settles()) == 4
        await cluster.add_node("b")
        await cluster.until(lambda: len(cluster.placed()) == 6)
        assert status(cluster)["active"] == 6

    story_of_gangs(story)


def test_a_deployment_comes_up_whole_and_is_scaled_freely() -> None:
    async def story(cluster: Gangs) -> None:
        await cluster.create("deployments", member(deployment("web", 6), 6))
        assert await cluster.settles() == []
        await cluster.add_node("b")
        await cluster.until(lambda: len(cluster.placed()) == 6)
        await cluster.patch("deployments", "web", {"spec": {"replicas": 2}})
        await cluster.until(lambda: len(cluster.placed()) == 2)
        await cluster.patch("deployments", "web", {"spec": {"replicas": 7}})
        await cluster.until(lambda: len(cluster.placed()) == 7)

    story_of_gangs(story)


def test_jobs_of_a_group_begin_together() -> None:
    """What a JobSet is: several Jobs, here with a gang each."""

    async def story(cluster: Gangs) -> None:
        groups = '["default/driver", "default/workers"]'
        for name, size in (("driver", 1), ("workers", 5)):
            made = member(
                job(name, FOREVER, completions=size, parallelism=size), size, name=name, groups=groups
            )
            await cluster.create("jobs", made)
            assert await cluster.settles() == []
        await cluster.add_node("b")
        await cluster.until(lambda: len(cluster.placed()) == 6)

    story_of_gangs(story)


def test_bare_pods_and_pods_of_unknown_owners_form_a_gang() -> None:
    """What operators of other kinds (RayCluster and the like) make: pods with an owner that nobody knows."""

    async def story(cluster: Gangs) -> None:
        template = member(deployment("x"), 2)["spec"]["template"]
        owner = {
            "apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "ray", "uid": "ray-1", "controller": True
        }  # fmt: skip
        for name, owners in (("head", [owner]), ("bare", [])):
            assert cluster.placed() == []
            metadata = {**template["metadata"], "name": name, "ownerReferences": owners}
            await cluster.create(
                "pods", {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
            )
            if name == "head":
                assert await cluster.settles() == []
        await cluster.until(lambda: cluster.placed() == ["bare", "head"])

    story_of_gangs(story)


def test_a_pod_group_describes_the_gang_of_a_job() -> None:
    async def story(cluster: Gangs) -> None:
        made = job(command=FOREVER, completions=3, parallelism=3)
        made["spec"]["template"]["metadata"] = {"labels": {"pod-group.scheduling.sigs.k8s.io": "g"}}
        await cluster.create("jobs", made)
        assert await cluster.settles() == []
        await cluster.create(
            "podgroups",
            {
                "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
                "kind": "PodGroup",
                "metadata": {"name": "g"},
                "spec": {"minMember": 3},
            },
        )
        await cluster.until(lambda: len(cluster.placed()) == 3)
        await cluster.until(lambda: cluster.one("podgroups", "g").get("status", {}).get("phase") == "Running")

    story_of_gangs(story)
