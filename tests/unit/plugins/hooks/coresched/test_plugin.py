import pytest
from prometheus_client import REGISTRY

from koordpy.agent.interface import StateType
from koordpy_plugins.hooks.coresched.cookies import Cookies
from koordpy_plugins.hooks.coresched.kernel import Prctl
from koordpy_plugins.hooks.coresched.plugin import CoreSched
from tests.hooks.node import HookNode

SPEC = {"containers": [{"name": "c0"}]}
ON = {"enable": True, "coreExpeller": False}
GROUP, POLICY = "koordinator.sh/core-sched-group-id", "koordinator.sh/core-sched-policy"


class Cores:
    """A kernel with cookies: what prctl does, for processes that are numbers."""

    def __init__(self, cookies=None, reason=None):
        self.cookies = dict(cookies or {})
        self.reason = reason
        self.next = 100

    def unsupported(self):
        return self.reason

    def get(self, pid):
        if pid not in self.cookies:
            raise ProcessLookupError(3, "No such process")
        return self.cookies[pid]

    def create(self, pid):
        self.get(pid)
        self.next += 1
        self.cookies[pid] = self.next

    def assign(self, source, pids):
        cookie = self.get(source)
        return self._set(pids, cookie)

    def clear(self, pids):
        return self._set(pids, 0)

    def _set(self, pids, cookie):
        failed = [pid for pid in pids if pid not in self.cookies]
        self.cookies.update({pid: cookie for pid in pids if pid in self.cookies})
        return failed


# --- groups --------------------------------------------------------------------------------------


def test_containers_of_a_group_share_a_cookie_and_other_groups_have_others():
    kernel = Cores({1: 0, 2: 0, 3: 0})
    cookies = Cookies(kernel)
    assert cookies.assign("a", "g", [1]) == cookies.assign("b", "g", [2]) == kernel.cookies[2]
    assert cookies.assign("c", "h", [3]) != kernel.cookies[1]


def test_later_processes_of_a_container_get_the_cookie_of_its_group():
    kernel = Cores({1: 0, 2: 0})
    cookies = Cookies(kernel)
    cookie = cookies.assign("a", "g", [1])
    assert cookies.assign("a", "g", [1, 2]) == cookie == kernel.cookies[2]


def test_a_group_whose_processes_have_all_ended_gets_a_new_cookie():
    kernel = Cores({1: 0})
    cookies = Cookies(kernel)
    old = cookies.assign("a", "g", [1])
    del kernel.cookies[1]
    kernel.cookies[2] = 0
    assert cookies.assign("a", "g", [2]) not in (0, old)


def test_processes_that_end_meanwhile_are_no_failure():
    kernel = Cores({1: 0, 2: 0})
    cookies = Cookies(kernel)
    cookie = cookies.assign("a", "g", [1])
    assert cookies.assign("b", "g", [7, 8]) == cookie


def test_the_first_container_decides_which_cookie_is_taken_over():
    cookies = Cookies(Cores({1: 50, 2: 60, 3: 0}))
    assert cookies.adopt("a", "g", [3, 1]) == 50
    assert cookies.adopt("b", "g", [2]) == 0
    assert cookies.cookie_of("g") == 50


def test_a_group_is_forgotten_with_its_last_container():
    cookies = Cookies(Cores({1: 0, 2: 0}))
    cookies.assign("a", "g", [1])
    cookies.assign("b", "g", [2])
    cookies.forget("a")
    assert cookies.cookie_of("g") != 0
    cookies.forget("b")
    assert cookies.cookie_of("g") == 0


# --- the hook ------------------------------------------------------------------------------------


@pytest.fixture
def node(node_cgroups):
    return HookNode(node_cgroups, CoreSched)


def start(node, cores, **classes):
    """Run the hook's first round with all pods known."""
    hook = node.hooks[CoreSched]
    hook.use_kernel(cores)
    node.runtime = type(node.runtime)([hook], node.handle)
    node.node_slo(
        resourceQOSStrategy={
            "policies": {"cpuPolicy": "coreSched"},
            **{name: {"cpuQOS": settings} for name, settings in classes.items()},
        }
    )
    node.send(StateType.ALL_PODS)
    node.runtime.round()
    return hook


def process_in(node, directory, cores, cookie=0):
    pid = node.tree.hold(directory, 4096).pid
    cores.cookies[pid] = cookie
    return pid


def test_pods_of_a_group_share_a_cookie_and_a_pod_alone_has_its_own(node):
    cores = Cores()
    pids = {}
    for name, labels in {"a": {GROUP: "g"}, "b": {GROUP: "g"}, "c": {POLICY: "exclusive"}}.items():
        directory = node.pod(name, SPEC, labels={"koordinator.sh/qosClass": "LS", **labels})
        pids[name] = process_in(node, f"{directory}/{name}c0", cores)
    start(node, cores, lsClass=ON)
    assert cores.cookies[pids["a"]] == cores.cookies[pids["b"]] != 0
    assert cores.cookies[pids["c"]] not in (0, cores.cookies[pids["a"]])


def test_a_pod_that_leaves_core_scheduling_loses_its_cookie_and_its_series(node):
    cores = Cores()
    labels = {"koordinator.sh/qosClass": "LS", GROUP: "g9"}
    directory = node.pod("d", SPEC, labels=labels)
    pid = process_in(node, f"{directory}/dc0", cores)
    start(node, cores, lsClass=ON)
    shown = {
        "node": "n",
        "pod_name": "d",
        "pod_namespace": "d",
        "pod_uid": "d",
        "container_name": "c0",
        "container_id": "containerd://dc0",
        "core_sched_group": "g9",
        "core_sched_cookie": str(cores.cookies[pid]),
    }
    assert REGISTRY.get_sample_value("koordlet_container_core_sched_cookie", shown) == cores.cookies[pid]
    node.pod("d", SPEC, labels={**labels, POLICY: "none"})
    node.runtime.round()
    assert cores.cookies[pid] == 0
    assert REGISTRY.get_sample_value("koordlet_container_core_sched_cookie", shown) is None


def test_the_cookie_of_the_oldest_pod_is_kept_over_a_restart_of_the_agent(node):
    cores = Cores()
    pids = {}
    for name, created, cookie in (("a", "2026-01-02T00:00:00Z", 60), ("b", "2026-01-01T00:00:00Z", 50)):
        labels = {"koordinator.sh/qosClass": "LS", GROUP: "g"}
        directory = node.pod(name, SPEC, labels=labels, creationTimestamp=created)
        pids[name] = process_in(node, f"{directory}/{name}c0", cores, cookie)
    start(node, cores, lsClass=ON)
    assert [cores.cookies[pid] for pid in pids.values()] == [50, 50]


def test_idle_qos_directories_follow_the_policy(node):
    start(node, Cores(), beClass={"enable": True, "schedIdle": 1})
    wanted = {each.directory: each.value for each in node.runtime.updates()}
    assert wanted == {"kubepods": "0", "kubepods/burstable": "0", "kubepods/besteffort": "1"}


def test_a_kernel_without_core_scheduling_is_left_alone(node):
    cores = Cores(reason="prctl PR_SCHED_CORE: Invalid argument")
    directory = node.pod("a", SPEC, qos="LS")
    pid = process_in(node, f"{directory}/ac0", cores)
    start(node, cores, lsClass=ON)
    assert cores.cookies[pid] == 0
    assert node.runtime.updates() == []


def test_without_cap_sys_ptrace_no_process_is_changed_and_the_log_says_why_once(node, caplog):
    class Denying(Cores):
        def get(self, pid):
            raise PermissionError(1, "Operation not permitted")

    cores = Denying()
    labels = {"koordinator.sh/qosClass": "LS", GROUP: "g"}
    pids = [process_in(node, f"{node.pod(name, SPEC, labels=labels)}/{name}c0", cores) for name in ("a", "b")]
    start(node, cores, lsClass=ON)
    node.runtime.round()
    assert [cores.cookies[pid] for pid in pids] == [0, 0]
    assert [record.levelname for record in caplog.records if "CAP_SYS_PTRACE" in record.message] == [
        "WARNING"
    ]


def test_the_kernel_says_whether_it_has_core_scheduling():
    kernel = Prctl()
    reason = kernel.unsupported()
    if reason is None:
        assert kernel.get(0) == 0
    else:
        assert "PR_SCHED_CORE" in reason
