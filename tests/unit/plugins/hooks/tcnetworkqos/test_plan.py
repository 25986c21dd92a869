"""What traffic control is to be, from a NodeSLO and pods."""

import pytest

from koordpy.agent.interface import PodMeta
from koordpy.api.core import Pod
from koordpy.api.scheme import decode
from koordpy.api.slo.node_slo import NodeSLOSpec
from koordpy_plugins.hooks.tcnetworkqos import bandwidth
from koordpy_plugins.hooks.tcnetworkqos.bandwidth import ClassBandwidth, NodeBandwidth
from koordpy_plugins.hooks.tcnetworkqos.plan import (
    BE,
    FIRST_POD,
    LAST_POD,
    LS,
    QDISC,
    ROOT,
    SMALLEST_RATE,
    SYSTEM,
    TrafficClass,
    handles,
    plan,
)

GBIT = 10**9
MEGABYTE = 10**6


def pod(name, qos="BE", ip="", limits=None, phase="Running", **spec):
    annotations = {} if limits is None else {"koordinator.sh/networkQOS": limits}
    document = {
        "metadata": {
            "name": name,
            "namespace": "d",
            "uid": name,
            "labels": {"koordinator.sh/qosClass": qos},
            "annotations": annotations,
        },
        "spec": {"containers": [{"name": "c"}], **spec},
        "status": {"phase": phase, "podIP": ip},
    }
    return PodMeta(decode(Pod, document), f"kubepods/pod{name}")


def slo(total="1G", policy=None, **classes):
    strategy = {name: {"networkQOS": section} for name, section in classes.items()}
    if policy is not None:
        strategy["policies"] = {"netQOSPolicy": policy}
    document = {"resourceQOSStrategy": strategy, "systemStrategy": {"totalNetworkBandwidth": total}}
    return decode(NodeSLOSpec, document)


@pytest.mark.parametrize(("policy", "enabled"), [(None, True), ("tc", True), ("terway-qos", False)])
def test_traffic_control_is_the_policy_unless_another_one_is_named(policy, enabled):
    assert bandwidth.is_enabled(slo(policy=policy)) is enabled


def test_integers_are_percentages_of_the_total_and_texts_amounts():
    given = slo(
        lsClass={"enable": True, "egressRequest": 40, "egressLimit": "800M"},
        beClass={"enable": True, "egressRequest": "100M", "egressLimit": 50},
    )
    assert bandwidth.of_node(given) == NodeBandwidth(
        GBIT, ClassBandwidth(4 * 10**8, 8 * 10**8), ClassBandwidth(10**8, 5 * 10**8)
    )


@pytest.mark.parametrize("section", [{"enable": False, "egressRequest": 40}, {"egressRequest": 40}])
def test_a_class_that_is_not_enabled_has_no_bandwidth_of_its_own(section):
    assert bandwidth.of_node(slo(lsClass=section)).ls == ClassBandwidth()


@pytest.mark.parametrize("given", [-1, 101, "a lot", "-5"])
def test_what_is_no_bandwidth_counts_as_none(given):
    section = {"enable": True, "egressRequest": given}
    assert bandwidth.of_node(slo(beClass=section)).be == ClassBandwidth()


def test_each_class_is_guaranteed_its_request_and_system_the_rest():
    node = NodeBandwidth(GBIT, ClassBandwidth(4 * 10**8, 8 * 10**8), ClassBandwidth(10**8, 5 * 10**8))
    assert plan(node, []).classes == {
        ROOT: TrafficClass(QDISC, 125 * MEGABYTE, 125 * MEGABYTE, 0),
        SYSTEM: TrafficClass(ROOT, 62_500_000, 125 * MEGABYTE, 1),
        LS: TrafficClass(ROOT, 50 * MEGABYTE, 100 * MEGABYTE, 2),
        BE: TrafficClass(ROOT, 12_500_000, 62_500_000, 3),
    }


def test_classes_without_settings_may_use_what_is_left():
    classes = plan(NodeBandwidth(GBIT), []).classes
    assert classes[LS] == TrafficClass(ROOT, SMALLEST_RATE, 125 * MEGABYTE, 2)
    assert classes[BE] == TrafficClass(ROOT, SMALLEST_RATE, 125 * MEGABYTE, 3)


def test_requests_beyond_the_total_leave_system_the_least():
    node = NodeBandwidth(GBIT, ClassBandwidth(GBIT), ClassBandwidth(GBIT))
    assert plan(node, []).classes[SYSTEM].rate == SMALLEST_RATE


def test_packets_of_pods_belong_to_the_class_of_their_label():
    pods = [
        pod("s", "SYSTEM", "10.0.0.1"),
        pod("e", "LSE", "10.0.0.2"),
        pod("r", "LSR", "10.0.0.3"),
        pod("l", "LS", "fd00::4"),
        pod("b", "BE", "10.0.0.5"),
        pod("none", "", "10.0.0.6"),
        pod("unknown", "OTHER", "10.0.0.7"),
    ]
    found = plan(NodeBandwidth(GBIT), pods)
    assert found.addresses == {
        "10.0.0.1": SYSTEM,
        "10.0.0.2": LS,
        "10.0.0.3": LS,
        "fd00::4": LS,
        "10.0.0.5": BE,
    }
    assert found.class_ids == {"s": SYSTEM, "e": LS, "r": LS, "l": LS, "b": BE}


def test_the_address_of_a_pod_in_the_nodes_network_is_the_nodes_and_classifies_nothing():
    found = plan(NodeBandwidth(GBIT), [pod("b", ip="10.0.0.1", hostNetwork=True)])
    assert found.addresses == {}
    assert found.class_ids == {"b": BE}


def test_pods_that_ended_or_have_no_valid_address_classify_nothing(caplog):
    pods = [pod("a", ip="10.0.0.1", phase="Succeeded"), pod("b"), pod("c", ip="10.0.0.300")]
    assert plan(NodeBandwidth(GBIT), pods).addresses == {}
    assert "d/c has the invalid address '10.0.0.300'" in caplog.text


def test_a_pod_with_a_limit_has_a_class_of_its_own_with_that_many_bits():
    found = plan(NodeBandwidth(GBIT), [pod("b", ip="10.0.0.1", limits='{"egressLimit": "80M"}')])
    handle = found.addresses["10.0.0.1"]
    assert FIRST_POD <= handle <= LAST_POD
    assert found.classes[handle] == TrafficClass(ROOT, 10 * MEGABYTE, 10 * MEGABYTE, 3)
    assert found.class_ids == {"b": handle}


@pytest.mark.parametrize(
    "limits", ['{"ingressLimit": "80M"}', '{"egressLimit": "x"}', "{", '{"egressLimit": "-1"}']
)
def test_a_pod_without_a_valid_limit_stays_in_its_class(limits):
    found = plan(NodeBandwidth(GBIT), [pod("b", ip="10.0.0.1", limits=limits)])
    assert found.addresses == {"10.0.0.1": BE}


def test_handles_of_pods_differ_and_do_not_depend_on_the_order():
    uids = [f"pod-{number}" for number in range(3000)]
    found = handles(uids)
    assert len(set(found.values())) == len(uids)
    assert all(FIRST_POD <= handle <= LAST_POD for handle in found.values())
    assert handles(reversed(uids)) == found


def test_more_pods_than_classes_leave_some_without_one():
    assert len(handles(str(number) for number in range(70_000))) == LAST_POD - FIRST_POD + 1


def test_the_digest_tells_other_addresses_and_classes():
    node = NodeBandwidth(GBIT)
    digests = {
        plan(node, pods).digest
        for pods in (
            [],
            [pod("b", ip="10.0.0.1")],
            [pod("b", ip="10.0.0.2")],
            [pod("b", "LS", ip="10.0.0.2")],
            [pod("b", ip="10.0.0.2", limits='{"egressLimit": "80M"}')],
        )
    }
    assert len(digests) == 5
    assert plan(NodeBandwidth(2 * GBIT), []).digest == plan(node, []).digest
