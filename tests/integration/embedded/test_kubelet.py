"""The stand-in kubelets: pods start, run, end, restart and are deleted; nodes report that they are alive."""

import asyncio
from datetime import timedelta

from koordpy.api.meta import parse_time
from tests.integration.embedded.living import START, Living, condition, live, pod


def state(cluster: Living, name: str) -> dict:
    found = cluster.one("pods", name)
    assert found is not None
    return found["status"]["containerStatuses"][0]


async def restarted(cluster: Living, count: int) -> None:
    await cluster.until(lambda: state(cluster, "p")["restartCount"] >= count)


def test_a_pod_is_created_and_then_runs() -> None:
    async def story(cluster: Living) -> None:
        await cluster.create("pods", pod("p", {"kubelet.koordpy.dev/start-after": "5s"}))
        creating = await cluster.until(lambda: cluster.one("pods", "p")["status"].get("containerStatuses"))
        assert creating[0]["state"] == {"waiting": {"reason": "ContainerCreating"}}
        assert cluster.one("pods", "p")["status"]["phase"] == "Pending"
        await cluster.until(lambda: cluster.running())
        status = cluster.one("pods", "p")["status"]
        assert status["phase"] == "Running"
        assert status["podIP"] == status["podIPs"][0]["ip"]
        assert status["hostIP"]
        assert status["startTime"]
        kinds = {item["type"] for item in status["conditions"] if item["status"] == "True"}
        assert kinds == {
            "PodScheduled", "Initialized", "ContainersReady", "Ready", "PodReadyToStartContainers"
        }  # fmt: skip
        assert (parse_time(state(cluster, "p")["state"]["running"]["startedAt"]) - START) >= timedelta(
            seconds=5
        )

    live(story)


def test_a_pod_ends_after_its_time() -> None:
    async def story(cluster: Living) -> None:
        sleeping = [{"name": "c", "image": "i:1", "command": ["sleep", "30"]}]
        await cluster.create("pods", pod("p", containers=sleeping, restartPolicy="Never"))
        await cluster.until(lambda: cluster.running())
        began = cluster.clock.monotonic()
        await cluster.until(lambda: cluster.one("pods", "p")["status"]["phase"] == "Succeeded")
        assert 29 < cluster.clock.monotonic() - began < 32
        assert state(cluster, "p")["state"]["terminated"]["reason"] == "Completed"
        assert condition(cluster.one("pods", "p"), "Ready")["reason"] == "PodCompleted"

    live(story)


def test_a_failing_container_restarts_with_a_growing_backoff() -> None:
    async def story(cluster: Living) -> None:
        notes = {"kubelet.koordpy.dev/run-for": "1s", "kubelet.koordpy.dev/exit-code": "3"}
        await cluster.create("pods", pod("p", notes))
        await cluster.until(
            lambda: (
                (state(cluster, "p")["state"].get("waiting") or {}).get("reason") == "CrashLoopBackOff"
                if cluster.one("pods", "p")["status"].get("containerStatuses")
                else False
            )
        )
        assert state(cluster, "p")["lastState"]["terminated"]["exitCode"] == 3
        times = []
        for count in (2, 3, 4):
            await restarted(cluster, count)
            times.append(cluster.clock.monotonic())
        assert 10 < times[1] - times[0] < 25 < times[2] - times[1] < 45
        assert cluster.one("pods", "p")["status"]["phase"] == "Running"

    live(story)


def test_a_pod_that_may_not_restart_fails() -> None:
    async def story(cluster: Living) -> None:
        failing = [{"name": "c", "image": "i:1", "command": ["sh", "-c", "sleep 2; exit 7"]}]
        await cluster.create("pods", pod("p", containers=failing, restartPolicy="Never"))
        await cluster.until(lambda: cluster.one("pods", "p")["status"]["phase"] == "Failed")
        assert state(cluster, "p")["state"]["terminated"]["exitCode"] == 7

    live(story)


def test_the_active_deadline_ends_a_pod() -> None:
    async def story(cluster: Living) -> None:
        await cluster.create("pods", pod("p", activeDeadlineSeconds=20))
        await cluster.until(lambda: cluster.one("pods", "p")["status"]["phase"] == "Failed")
        assert 19 < cluster.clock.monotonic() < 25
        assert cluster.one("pods", "p")["status"]["reason"] == "DeadlineExceeded"

    live(story)


def test_init_containers_run_first_and_sidecars_keep_running() -> None:
    async def story(cluster: Living) -> None:
        init = [
            {"name": "sidecar", "image": "s:1", "restartPolicy": "Always"},
            {"name": "setup", "image": "i:1", "command": ["sleep", "4"]},
        ]
        await cluster.create("pods", pod("p", initContainers=init))
        await cluster.until(lambda: cluster.one("pods", "p")["status"].get("initContainerStatuses"))
        assert state(cluster, "p")["state"] == {"waiting": {"reason": "PodInitializing"}}
        await cluster.until(lambda: cluster.running())
        sidecar, setup = cluster.one("pods", "p")["status"]["initContainerStatuses"]
        assert "running" in sidecar["state"]
        assert setup["state"]["terminated"]["exitCode"] == 0
        assert cluster.clock.monotonic() > 4

    live(story)


def test_a_deleted_pod_is_terminating_for_as_long_as_its_containers_take() -> None:
    async def story(cluster: Living) -> None:
        await cluster.create("pods", pod("slow", {"kubelet.koordpy.dev/stop-after": "10s"}))
        await cluster.create("pods", pod("stubborn", {"kubelet.koordpy.dev/stop-after": "10m"}))
        await cluster.create("pods", pod("quick"))
        await cluster.until(lambda: len(cluster.running()) == 3)
        began = cluster.clock.monotonic()
        for name in ("slow", "stubborn", "quick"):
            await cluster.delete("pods", name)
        ended: dict[str, float] = {}
        while len(ended) < 3:
            for name in ("slow", "stubborn", "quick"):
                if cluster.one("pods", name) is None:
                    ended.setdefault(name, cluster.clock.monotonic() - began)
            await asyncio.sleep(0.05)
        assert ended["quick"] < 1 < 9 < ended["slow"] < 12 < 29 < ended["stubborn"] < 32
        assert "Stopping container c" in cluster.events("Killing")

    live(story)


def test_an_image_that_cannot_be_pulled_keeps_a_pod_waiting() -> None:
    async def story(cluster: Living) -> None:
        await cluster.create("pods", pod("p", {"kubelet.koordpy.dev/image": "missing"}))
        await cluster.until(lambda: cluster.one("pods", "p")["status"].get("containerStatuses"))
        await asyncio.sleep(60)
        assert state(cluster, "p")["state"]["waiting"]["reason"] == "ImagePullBackOff"
        assert cluster.one("pods", "p")["status"]["phase"] == "Pending"

    live(story)


def test_new_kubelets_continue_where_the_old_ones_were_stopped() -> None:
    async def story(cluster: Living) -> None:
        notes = {"kubelet.koordpy.dev/run-for": "100s", "kubelet.koordpy.dev/exit-code": "1"}
        await cluster.create("pods", pod("p", notes))
        await cluster.until(lambda: cluster.running() and state(cluster, "p")["restartCount"] == 1, 300)
        before = cluster.one("pods", "p")["status"]
        await asyncio.sleep(30)
        await cluster.stop_kubelets()
        await cluster.start_kubelets()
        await asyncio.sleep(5)
        after = cluster.one("pods", "p")["status"]
        assert (after["podIP"], after["startTime"]) == (before["podIP"], before["startTime"])
        assert after["containerStatuses"][0]["restartCount"] == 1
        began = cluster.clock.monotonic()
        await cluster.until(lambda: state(cluster, "p")["restartCount"] == 2, 300)
        assert cluster.clock.monotonic() - began < 80

    live(story)


def test_nodes_report_heartbeats_and_renew_their_leases() -> None:
    async def story(cluster: Living) -> None:
        await cluster.until(lambda: condition(cluster.one("nodes", "a"), "Ready"))
        node = cluster.one("nodes", "a")
        assert condition(node, "Ready")["reason"] == "KubeletReady"
        assert node["status"]["nodeInfo"]["kubeletVersion"].startswith("v1.")
        assert {item["type"] for item in node["status"]["addresses"]} == {"InternalIP", "Hostname"}
        first = await cluster.until(lambda: cluster.one("leases", "a", "kube-node-lease"))
        assert first["spec"]["holderIdentity"] == "a"
        await asyncio.sleep(400)
        renewed = cluster.one("leases", "a", "kube-node-lease")
        now = cluster.clock.now()
        assert now - parse_time(renewed["spec"]["renewTime"]) < timedelta(seconds=12)
        ready = condition(cluster.one("nodes", "a"), "Ready")
        assert parse_time(ready["lastHeartbeatTime"]) > START + timedelta(seconds=290)
        assert parse_time(ready["lastTransitionTime"]) < START + timedelta(seconds=5)

    live(story)


def test_nothing_happens_on_a_node_whose_kubelet_is_down() -> None:
    async def story(cluster: Living) -> None:
        await cluster.patch("nodes", "a", {"metadata": {"annotations": {"kubelet.koordpy.dev/down": "true"}}})
        await asyncio.sleep(1)
        renewed = cluster.one("leases", "a", "kube-node-lease")
        await cluster.create("pods", pod("p", nodeName="a"))
        await asyncio.sleep(60)
        assert cluster.one("pods", "p")["status"]["phase"] == "Pending"
        assert cluster.one("leases", "a", "kube-node-lease") == renewed
        await cluster.patch("nodes", "a", {"metadata": {"annotations": {"kubelet.koordpy.dev/down": None}}})
        await cluster.until(lambda: cluster.running(), 5)

    live(story, nodes=("a",))


def test_times_that_never_come_are_no_problem() -> None:
    async def story(cluster: Living) -> None:
        digits = "9" * 400
        asleep = [{"name": "c", "image": "i:1", "command": ["sleep", digits]}]
        await cluster.create("pods", pod("p", containers=asleep, activeDeadlineSeconds=2**31 - 1))
        notes = {"kubelet.koordpy.dev/run-for": "2000000h", "kubelet.koordpy.dev/ready-after": "1s"}
        await cluster.create("pods", pod("q", notes))
        await cluster.until(lambda: len(cluster.running()) == 2)

    live(story)
