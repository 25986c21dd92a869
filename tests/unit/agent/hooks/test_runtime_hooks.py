import asyncio
import logging
from typing import ClassVar

import pytest

from koordpy.agent.engine.plugins import Installed
from koordpy.agent.hooks.rules import Rules
from koordpy.agent.hooks.runtime_hooks import INTERVAL_FLAG
from koordpy.agent.hooks.stages import Stages
from koordpy.agent.interface import StateType
from koordpy.agent.interface.hook import (
    OFF,
    FailurePolicy,
    Hook,
    HookError,
    Level,
    PodRequest,
    Reconciler,
    Rule,
    Stage,
    StageFunction,
)
from koordpy.agent.toolkit import hook_requests
from koordpy.api.core import Node
from koordpy.api.scheme import decode
from koordpy_plugins.hooks.batchresource.plugin import BatchResource
from koordpy_plugins.hooks.gpu.plugin import GPUEnvInject
from koordpy_plugins.hooks.groupidentity.plugin import GroupIdentity
from tests.eventually import PATIENCE
from tests.hooks.node import HookNode

SPEC = {"containers": [{"name": "c0"}]}


class Weigher(Hook):
    """Weighs pods by an annotation of the Node, and counts how often it is asked."""

    name = "Weigher"
    feature = "Weighing"
    feature_gates: ClassVar = {"Weighing": OFF}
    asked = 0
    weight = 100
    stopped = False

    def rules(self):
        return (Rule("weights", StateType.NODE_METADATA, self.read),)

    def read(self, node):
        weight = int(node.metadata.annotations["weight"])
        changed, self.weight = weight != self.weight, weight
        return changed

    def reconcilers(self):
        return (Reconciler(Level.POD, "cpu.shares", self.pod),)

    def pod(self, request, response):
        self.asked += 1
        if "broken" in request.annotations:
            raise HookError("broken")
        response.set("cpu.shares", self.weight, "a weight")

    def stop(self):
        self.stopped = True


class Rival(Weigher):
    name = "Rival"


@pytest.fixture
def node(node_cgroups):
    return HookNode(node_cgroups, Weigher)


@pytest.fixture
def weigher(node):
    return node.hooks[Weigher]


def shares(node, directory):
    return node.tree.files.cpu_shares(directory)


def test_values_are_computed_again_only_if_a_pod_or_a_rule_changes(node, weigher):
    node.pod("p", SPEC)
    node.pod("q", SPEC)
    node.runtime.round()
    node.runtime.round()
    assert weigher.asked == 2
    node.pod("q", {"containers": [{"name": "c0", "image": "new"}]})
    node.runtime.round()
    assert weigher.asked == 3
    node.node({"weight": "200"})
    node.runtime.round()
    assert weigher.asked == 5


def test_equal_pods_of_a_new_list_are_the_same_pods(node, weigher):
    node.pod("p", SPEC)
    node.runtime.round()
    node.pod("p", SPEC)
    node.runtime.round()
    assert weigher.asked == 1


class SandboxWeigher(Weigher):
    name = "SandboxWeigher"

    def reconcilers(self):
        return (Reconciler(Level.SANDBOX, "cpu.shares", self.pod_of),)

    def pod_of(self, request, response):
        self.asked += 1
        response.set("cpu.shares", self.weight)


def test_a_sandbox_that_comes_later_is_found_and_one_that_never_comes_is_given_up(node_cgroups):
    node = HookNode(node_cgroups, SandboxWeigher)
    directory = node.pod("p", SPEC)
    node.tree.remove(f"{directory}/psandbox")
    node.runtime.round()
    assert node.runtime.updates() == []
    node.tree.make(f"{directory}/psandbox")
    node.runtime.round()
    assert [each.directory for each in node.runtime.updates()] == [f"{directory}/psandbox"]
    other = node.pod("q", SPEC)
    node.tree.remove(f"{other}/qsandbox")
    for _ in range(20):
        node.runtime.round()
    asked = node.hooks[SandboxWeigher].asked
    node.runtime.round()
    assert node.hooks[SandboxWeigher].asked == asked


def test_an_invalid_state_keeps_the_old_rule(node, weigher, caplog):
    node.pod("p", SPEC)
    node.node({"weight": "200"})
    with caplog.at_level(logging.WARNING):
        node.node({"weight": "heavy"})
    assert weigher.weight == 200
    assert "weights" in caplog.text


def test_a_pod_for_which_a_hook_fails_gets_nothing_of_it_and_others_do(node):
    broken = node.pod("a", SPEC, annotations={"broken": "yes"})
    fine = node.pod("b", SPEC)
    node.runtime.round()
    assert [update.directory for update in node.runtime.updates()] == [fine]
    assert shares(node, broken) != 100


def test_a_pod_whose_amounts_cannot_be_read_is_left_out(node, caplog):
    spec = {"containers": [{"name": "c0", "resources": {"limits": {"cpu": "plenty"}}}]}
    node.pod("a", spec)
    fine = node.pod("b", SPEC)
    node.runtime.round()
    assert [update.directory for update in node.runtime.updates()] == [fine]
    assert "d/a" in caplog.text
    requests = hook_requests.each(node.states.metas, node.handle.layout)
    assert [meta.pod.metadata.name for meta, _ in requests] == ["b"]


def test_updates_name_how_their_values_were_computed(node):
    node.pod("p", SPEC)
    node.runtime.round()
    assert [(each.reason, each.formula) for each in node.runtime.updates()] == [("runtime-hooks", "a weight")]


def test_two_hooks_that_decide_the_same_value_are_refused(node_cgroups):
    class Other(Rival):
        def rules(self):
            return ()

    with pytest.raises(HookError, match="on level pod"):
        HookNode(node_cgroups, Weigher, Other)


def test_rules_have_names_of_their_own():
    rule = Rule("weights", StateType.ALL_PODS, lambda _: True)
    with pytest.raises(HookError, match="weights"):
        Rules([rule, rule])


def test_a_rule_that_the_node_does_not_support_is_not_parsed(caplog):
    parsed: list[None] = []

    def parse(state):
        parsed.append(state)
        return True

    rule = Rule("weights", StateType.ALL_PODS, parse, unsupported=lambda: "no scales")
    with caplog.at_level(logging.INFO):
        assert Rules([rule]).parse(StateType.ALL_PODS, None) == {}
    assert not parsed
    assert caplog.text.count("no scales") == 1


def test_a_hook_that_cannot_act_is_refused_although_its_gate_is_on(node_cgroups, caplog):
    node = HookNode(node_cgroups, GPUEnvInject)
    assert node.runtime.hooks == []
    assert "feature gate GPUEnvInject is refused" in caplog.text


def test_hooks_are_off_without_their_gates(node_cgroups):
    node = HookNode(node_cgroups, BatchResource, Weigher, gates={"Weighing": False})
    assert [hook.name for hook in node.runtime.hooks] == ["BatchResource"]


def test_gates_have_koordlets_defaults():
    specs = Installed.find().gate_specs()
    defaults = {
        "BatchResource": True,
        "CPUNormalization": False,
        "CPUSetAllocator": True,
        "CoreSched": False,
        "GPUEnvInject": False,
        "GroupIdentity": True,
        "OOMScoreAdj": False,
        "RDMADeviceInject": False,
        "Resctrl": False,
        "TCNetworkQoS": False,
        "TerwayQoS": False,
    }
    assert {name: specs[name].default for name in defaults} == defaults


def test_other_hooks_take_over_with_the_states_that_are_known(node, weigher):
    node.pod("p", SPEC)
    node.runtime.round()
    document = {"metadata": {"name": "n", "annotations": {"weight": "300"}}}
    node.handle.cluster.store(Node).apply(decode(Node, document))
    other = Weigher.make(node.handle)
    node.runtime.exchange([other], node.handle)
    assert weigher.stopped
    node.runtime.apply_changes()
    assert other.weight == 300
    assert [update.value for update in node.runtime.updates()] == ["300"]


def test_hooks_that_contradict_each_other_do_not_replace_others(node, weigher):
    class Other(Rival):
        def rules(self):
            return ()

    with pytest.raises(HookError):
        node.runtime.exchange([weigher, Other.make(node.handle)], node.handle)
    assert node.runtime.hooks == [weigher]
    assert not weigher.stopped


async def until(condition):
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.01)


async def test_the_service_reacts_to_a_new_pod_at_once(node_cgroups):
    node = HookNode(node_cgroups, Weigher, flags={INTERVAL_FLAG: "1h"})
    assert node.runtime.not_ready() is not None
    running = asyncio.create_task(node.runtime.run())
    await until(lambda: node.runtime.not_ready() is None)
    directory = node.pod("p", SPEC)
    node.send(StateType.ALL_PODS)
    await until(lambda: shares(node, directory) in (100, 80))
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert node.hooks[Weigher].stopped


# --- stages --------------------------------------------------------------------------------------

REQUEST = PodRequest("d", "p", "u", {}, {}, "kubepods/podu")


def functions():
    def first(request, response):
        response.set("cpu.shares", 2)
        raise HookError("first failed")

    def second(request, response):
        response.set("cpu.idle", 1)

    stage = Stage.PRE_RUN_POD_SANDBOX
    return [StageFunction(stage, "b", second), StageFunction(stage, "a", first)]


def test_functions_of_a_stage_run_by_name_and_failures_can_be_ignored():
    response, error = Stages(functions(), "n").run(Stage.PRE_RUN_POD_SANDBOX, REQUEST, FailurePolicy.IGNORE)
    assert list(response.values) == ["cpu.shares", "cpu.idle"]
    assert error is None


def test_a_failure_stops_the_functions_after_it_and_what_was_set_stays():
    response, error = Stages(functions(), "n").run(Stage.PRE_RUN_POD_SANDBOX, REQUEST, FailurePolicy.FAIL)
    assert response.values == {"cpu.shares": 2}
    assert str(error) == "first failed"


def test_other_stages_have_nothing_to_do():
    response, error = Stages(functions(), "n").run(Stage.POST_STOP_CONTAINER, REQUEST, FailurePolicy.FAIL)
    assert (response.values, error) == ({}, None)


def test_a_kernel_without_group_identity_gets_nothing(node_cgroups):
    node = HookNode(node_cgroups, GroupIdentity)
    node.pod("p", SPEC, qos="LS")
    node.node_slo(resourceQOSStrategy={"lsClass": {"cpuQOS": {"enable": True}}})
    node.runtime.round()
    assert node.runtime.updates() == []
