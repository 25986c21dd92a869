"""What users see of gangs over time, beside kube-scheduler: the scenarios of Koordinator's manuals and of the
integration tests of scheduler-plugins, and what happens to gangs that change.
"""

import asyncio

import pytest

from .ganging import GangCluster, play
from .living import Document

# Each pod is (name, gang or "", bytes of memory); the node has 300 bytes.
COMPETING: dict[str, tuple[dict[str, int], list[tuple[str, str, int]], set[str]]] = {
    "one_gang_is_complete": (
        {"a": 3, "b": 4},
        [(f"a{n}", "a", 50) for n in range(3)] + [(f"b{n}", "b", 100) for n in range(4)],
        {"a0", "a1", "a2"},
    ),
    "gangs_arrive_interleaved": (
        {"a": 3, "b": 4},
        [
            ("a0", "a", 50), ("b0", "b", 100), ("a1", "a", 50), ("b1", "b", 100),
            ("a2", "a", 50), ("b2", "b", 100), ("b3", "b", 100),
        ],
        {"a0", "a1", "a2"},
    ),
    "an_incomplete_gang_leaves_room_for_other_pods": (
        {"a": 4},
        [
            ("a0", "a", 50), ("x", "", 100), ("a1", "a", 50), ("y", "", 100),
            ("a2", "a", 50),
        ],
        {"x", "y"},
    ),
    "three_gangs_one_of_which_fits": (
        {"a": 3, "b": 4, "c": 4},
        [
            ("a0", "a", 50), ("b0", "b", 100), ("c0", "c", 100),
            ("a1", "a", 50), ("b1", "b", 100), ("c1", "c", 100),
            ("a2", "a", 50), ("b2", "b", 100), ("c2", "c", 100),
            ("b3", "b", 100), ("c3", "c", 100),
        ],
        {"a0", "a1", "a2"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("case", COMPETING)
def test_gangs_that_compete_for_a_node(case: str, gated: bool) -> None:
    groups, pods, expected = COMPETING[case]

    async def story(cluster: GangCluster) -> None:
        await cluster.add_machine("n", memory="300", pods="32")
        for name, minimum in groups.items():
            await cluster.pod_group(name, minimum)
        for name, group, memory in pods:
            await cluster.pod(name, group=group, requests={"memory": str(memory)})
        await cluster.until(lambda: set(cluster.bound()) == expected)
        await asyncio.sleep(60)
        assert set(cluster.bound()) == expected

    play(story, gated=gated)


def test_a_gang_of_higher_priority_comes_first_where_two_wait() -> None:
    async def story(cluster: GangCluster) -> None:
        await cluster.priority_classes(low=10, high=1000)
        for name in ("low", "high"):
            await cluster.pod_group(name, 3)
            await cluster.members(name, 3, priorityClassName=name)
        await asyncio.sleep(30)
        await cluster.add_machine("n", cpu="4")
        await cluster.until(lambda: len(cluster.bound("high")) == 3)
        assert cluster.bound("low") == []

    play(story)


def test_a_gang_that_cannot_fit_does_not_keep_others_from_being_scheduled() -> None:
    async def story(cluster: GangCluster) -> None:
        await cluster.add_machine("n1", cpu="6")
        for name in ("n2", "n3", "n4"):
            await cluster.add_machine(name, cpu="2")
        await cluster.pod_group("large", 6)
        await cluster.pod_group("one", 1)
        await cluster.members("large", 6, requests={"cpu": "4"})
        await cluster.members("one", 1, requests={"cpu": "2"})
        await cluster.until(lambda: cluster.bound() == ["one-0"])
        await asyncio.sleep(60)
        assert cluster.bound() == ["one-0"]

    play(story)


@pytest.mark.parametrize("by_pod_group", [True, False])
def test_the_first_example_of_the_manual(by_pod_group: bool) -> None:
    async def story(cluster: GangCluster) -> None:
        await cluster.add_machine("n")
        if by_pod_group:
            await cluster.pod_group("gang-example", 2, scheduleTimeoutSeconds=100)
        more: Document = (
            {"group": "gang-example"}
            if by_pod_group
            else {"notes": {"name": "gang-example", "min-available": "2"}}
        )
        await cluster.pod("pod-example1", **more, requests={"cpu": "40m", "memory": "40Mi"})
        await asyncio.sleep(45)
        assert cluster.bound() == []
        await cluster.pod("pod-example2", **more, requests={"cpu": "40m", "memory": "40Mi"})
        await cluster.until(lambda: len(cluster.running()) == 2)
        if by_pod_group:

            def is_running() -> bool:
                status = cluster.one("podgroups", "gang-example")["status"]
                return (status["phase"], status.get("running"), status["scheduled"]) == ("Running", 2, 2)

            await cluster.until(is_running)

    play(story)


def test_gangs_of_a_group_in_two_namespaces_are_scheduled_together() -> None:
    async def story(cluster: GangCluster) -> None:
        await cluster.add_machine("n", cpu="4")
        notes = {"groups": ["default/a", "other/b"]}
        await cluster.create("namespaces", {"metadata": {"name": "other"}})
        await cluster.pod_group("a", 2, notes)
        await cluster.members("a", 2)
        await cluster.pod_group("b", 2, notes, namespace="other")
        await cluster.members("b", 1, namespace="other")
        await asyncio.sleep(30)
        assert cluster.bound() == []
        await cluster.members("b", 1, start=1, namespace="other")
        await cluster.until(lambda: len(cluster.bound()) == 2 and len(cluster.bound("b", "other")) == 2)

    play(story)


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("gated", [False, True])
def test_a_lower_minimum_lets_a_gang_go_that_did_not_fit(gated: bool, restarts: bool) -> None:
    async def story(cluster: GangCluster) -> None:
        await cluster.add_machine("n", cpu="3")
        await cluster.pod_group("g", 4)
        await cluster.members("g", 4)
        await asyncio.sleep(30)
        assert cluster.bound() == []
        if restarts:
            await cluster.restart_koordpy()
        await cluster.patch("podgroups", "g", {"spec": {"minMember": 3}})
        await cluster.until(lambda: len(cluster.bound()) == 3)

    play(story, gated=gated)


@pytest.mark.parametrize("gated", [False, True])
def test_a_lower_minimum_completes_a_gang(gated: bool) -> None:
    async def story(cluster: GangCluster) -> None:
        await cluster.add_machine("n")
        await cluster.pod_group("g", 4)
        await cluster.members("g", 3)
        await asyncio.sleep(30)
        assert cluster.bound() == []
        await cluster.patch("podgroups", "g", {"spec": {"minMember": 3}})
        await cluster.until(lambda: len(cluster.bound()) == 3)

    play(story, gated=gated)


@pytest.mark.parametrize("gated", [False, True])
def test_a_higher_minimum_holds_an_incomplete_gang_back(gated: bool) -> None:
    async def story(cluster: GangCluster) -> None:
        await cluster.pod_group("g", 2)
        await cluster.members("g", 2)
        await asyncio.sleep(15)  # there is no node yet
        await cluster.patch("podgroups", "g", {"spec": {"minMember": 3}})
        await cluster.add_machine("n")
        await asyncio.sleep(60)
        assert cluster.bound() == []
        assert "child pod not collect enough" in cluster.told("g-0")
        await cluster.members("g", 1, start=2)
        await cluster.until(lambda: len(cluster.bound()) == 3)

    play(story, gated=gated)


@pytest.mark.parametrize("gated", [False, True])
def test_a_pod_group_that_is_deleted_and_created_anew(gated: bool) -> None:
    async def story(cluster: GangCluster) -> None:
        await cluster.pod_group("g", 2)
        await cluster.members("g", 2)
        await asyncio.sleep(15)
        await cluster.delete("podgroups", "g")
        await cluster.add_machine("n")
        await asyncio.sleep(60)
        assert cluster.bound() == []
        await cluster.pod_group("g", 2)
        await cluster.until(lambda: len(cluster.bound()) == 2)

    play(story, gated=gated)


@pytest.mark.parametrize("gated", [False, True])
def test_a_pod_group_that_comes_after_its_pods(gated: bool) -> None:
    async def story(cluster: GangCluster) -> None:
        await cluster.add_machine("n")
        await cluster.members("g", 3)
        await asyncio.sleep(60)
        assert cluster.bound() == []
        await cluster.pod_group("g", 3)
        await cluster.until(lambda: len(cluster.bound()) == 3)

    play(story, gated=gated)


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("by_pod_group", [True, False])
def test_a_gang_that_was_whole_needs_no_minimum_after_a_restart(by_pod_group: bool, gated: bool) -> None:
    async def story(cluster: GangCluster) -> None:
        await cluster.add_machine("n")
        more: Document = {} if by_pod_group else {"notes": {"name": "g", "min-available": "3"}}
        if by_pod_group:
            await cluster.pod_group("g", 3)
        for number in range(3):
            await cluster.pod(f"g-{number}", group="g" if by_pod_group else "", **more)
        await cluster.until(lambda: len(cluster.running()) == 3)
        await cluster.restart_koordpy()
        await cluster.delete("pods", "g-1")
        await cluster.pod("g-3", group="g" if by_pod_group else "", **more)
        await cluster.until(lambda: cluster.bound() == ["g-0", "g-2", "g-3"])

    play(story, gated=gated)


def test_the_total_number_is_for_display_only() -> None:
    async def story(cluster: GangCluster) -> None:
        await cluster.add_machine("n")
        await cluster.pod_group("g", 2, {"total-number": "5"})
        await cluster.members("g", 2)
        await cluster.until(lambda: len(cluster.bound()) == 2)

    play(story)


def test_finished_members_count_as_long_as_they_exist() -> None:
    """As in Koordinator: the pods that are left of a Job are scheduled after one has completed."""

    async def story(cluster: GangCluster) -> None:
        await cluster.add_machine("n", cpu="1")
        await cluster.pod_group("g", 2, {"match-policy": "waiting-and-running"})
        await cluster.members("g", 1, nodeName="n")
        await cluster.until(lambda: len(cluster.running()) == 1)
        await cluster.end("g-0")
        await cluster.members("g", 1, start=1)
        await cluster.until(lambda: cluster.bound() == ["g-1"])

    play(story)


@pytest.mark.parametrize("gated", [False, True])
def test_a_member_that_is_deleted_before_it_has_a_node_leaves_the_gang_incomplete(gated: bool) -> None:
    async def story(cluster: GangCluster) -> None:
        await cluster.pod_group("g", 2)
        await cluster.members("g", 2)
        await asyncio.sleep(15)
        await cluster.delete("pods", "g-0")
        await cluster.add_machine("n")
        await asyncio.sleep(60)
        assert cluster.bound() == []
        await cluster.members("g", 1, start=2)
        await cluster.until(lambda: cluster.bound() == ["g-1", "g-2"])

    play(story, gated=gated)


@pytest.mark.parametrize("policy", ["once-satisfied", "waiting-and-running", "only-waiting"])
def test_more_members_than_the_minimum(policy: str) -> None:
    async def story(cluster: GangCluster) -> None:
        await cluster.add_machine("n", cpu="4")
        await cluster.pod_group("g", 3, {"match-policy": policy})
        await cluster.members("g", 5)
        await cluster.until(lambda: len(cluster.bound()) == 4)
        await cluster.add_machine("m", cpu="4")
        late = 4 if policy == "only-waiting" else 5  # a single pod that waits is less than three
        await cluster.until(lambda: len(cluster.bound()) == late)
        await asyncio.sleep(60)
        assert len(cluster.bound()) == late

    play(story)


def test_a_pod_with_an_invalid_minimum_does_not_describe_its_gang() -> None:
    async def story(cluster: GangCluster) -> None:
        await cluster.add_machine("n")
        await cluster.pod("g-0", notes={"name": "g", "min-available": "xxx"})
        await asyncio.sleep(30)
        assert cluster.bound() == []
        assert "gang has not init" in cluster.told("g-0")
        await cluster.pod("g-1", notes={"name": "g", "min-available": "2"})
        await cluster.until(lambda: cluster.bound() == ["g-0", "g-1"])

    play(story)


def test_pods_with_the_labels_of_older_releases() -> None:
    async def story(cluster: GangCluster) -> None:
        await cluster.add_machine("n")
        labels = {
            "pod-group.scheduling.sigs.k8s.io/name": "g",
            "pod-group.scheduling.sigs.k8s.io/min-available": "2",
        }
        for number in range(2):
            assert cluster.bound() == []
            await cluster.pod(f"g-{number}", labels=labels)
            await asyncio.sleep(20)
        assert cluster.bound() == ["g-0", "g-1"]

    play(story)


@pytest.mark.parametrize("gated", [False, True])
def test_a_gang_that_its_quota_refused_is_tried_again_once_the_quota_has_room(gated: bool) -> None:
    async def story(cluster: GangCluster) -> None:
        await cluster.add_machine("n")
        await cluster.quota("q", "3")
        await cluster.pod_group("g", 4)
        await cluster.members("g", 4, labels={"quota.scheduling.koordinator.sh/name": "q"})
        await asyncio.sleep(120)
        assert cluster.bound() == []
        assert "ElasticQuota" in cluster.told("g-0")
        await cluster.quota("q", "4")
        await cluster.until(lambda: len(cluster.bound()) == 4, 30)

    play(story, gated=gated, plugins=("Coscheduling", "ElasticQuota"))


def test_all_pods_of_a_large_gang_are_tried_again_once_its_quota_has_room() -> None:
    async def story(cluster: GangCluster) -> None:
        await cluster.add_machine("n", pods="500")
        await cluster.quota("q", "1")
        await cluster.pod_group("g", 150)
        labels = {"quota.scheduling.koordinator.sh/name": "q"}
        await cluster.members("g", 150, labels=labels, requests={"cpu": "10m"})
        await asyncio.sleep(60)
        assert cluster.bound() == []
        await cluster.quota("q", "2")
        await cluster.until(lambda: len(cluster.bound()) == 150, 60)

    play(story, plugins=("Coscheduling", "ElasticQuota"))


async def reservation(cluster: GangCluster, name: str, cpu: str = "1") -> None:
    """Create a Reservation that is a member of the gang `g`."""
    labels = {"pod-group.scheduling.sigs.k8s.io": "g"}
    container = {"name": "c", "image": "i:1", "resources": {"requests": {"cpu": cpu}}}
    await cluster.create(
        "reservations",
        {
            "apiVersion": "scheduling.koordinator.sh/v1alpha1",
            "kind": "Reservation",
            "metadata": {"name": name, "labels": labels},
            "spec": {
                "owners": [{"labelSelector": {"matchLabels": {"app": name}}}],
                "ttl": "24h",
                "template": {
                    "metadata": {"namespace": "default", "labels": labels},
                    "spec": {"containers": [container], "schedulerName": "default-scheduler"},
                },
            },
        },
    )


def test_reservations_and_pods_are_members_of_one_gang() -> None:
    async def story(cluster: GangCluster) -> None:
        await cluster.add_machine("n1", cpu="2")
        await cluster.pod_group("g", 4)
        for name in ("r1", "r2"):
            await reservation(cluster, name)
        await asyncio.sleep(20)
        await cluster.members("g", 2)
        await asyncio.sleep(40)

        def available() -> int:
            found = [item.get("status") or {} for item in cluster.all("reservations")]
            return sum(status.get("phase") == "Available" for status in found)

        assert (available(), cluster.bound()) == (0, [])
        await cluster.add_machine("n2", cpu="2")
        await cluster.until(lambda: available() == 2 and len(cluster.bound()) == 2)
        told = cluster.one("reservations", "r1")["metadata"]["annotations"]
        assert told["internal.scheduling.koordinator.sh/bind-gang-member-count"] == "4"

    play(story)


@pytest.mark.parametrize("mode", ["Strict", "NonStrict"])
def test_no_member_is_bound_by_itself(mode: str) -> None:
    async def story(cluster: GangCluster) -> None:
        await cluster.add_machine("n", cpu="2")
        await cluster.pod_group("g", 3, {"mode": mode}, scheduleTimeoutSeconds=5)
        await cluster.members("g", 3)
        for _ in range(60):
            await asyncio.sleep(2)
            assert cluster.bound() == []
        await cluster.add_machine("m", cpu="1")
        await cluster.until(lambda: len(cluster.bound()) == 3)

    play(story)


def test_bound_members_are_told_how_many_were_bound_together() -> None:
    async def story(cluster: GangCluster) -> None:
        await cluster.add_machine("n")
        await cluster.pod_group("g", 2)
        await cluster.members("g", 3)
        await cluster.until(lambda: len(cluster.bound()) == 3)
        found = []
        for pod in cluster.pods():
            notes = pod["metadata"].get("annotations") or {}
            assert notes.get("scheduling.koordinator.sh/bind-gang-member-count") == notes.get(
                "internal.scheduling.koordinator.sh/bind-gang-member-count"
            )
            found.append(notes.get("internal.scheduling.koordinator.sh/bind-gang-group-id"))
        assert found.count("default/g") >= 2

    play(story)


@pytest.mark.parametrize("count", [1, 2])
def test_what_pods_bring_of_an_earlier_binding_is_not_kept(count: int) -> None:
    async def story(cluster: GangCluster) -> None:
        await cluster.add_machine("n")
        key = "internal.scheduling.koordinator.sh/bind-gang-member-count"
        for number in range(count):
            await cluster.pod(f"g-{number}", notes={"name": "g", "min-available": str(count)})
            await cluster.patch("pods", f"g-{number}", {"metadata": {"annotations": {key: "7"}}})
        await cluster.until(lambda: len(cluster.bound()) == count)
        found = [pod["metadata"]["annotations"].get(key) for pod in cluster.pods()]
        assert found == ([None] if count == 1 else ["2", "2"])

    play(story, gated=True)
