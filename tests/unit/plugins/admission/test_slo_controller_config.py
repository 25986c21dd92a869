"""The slo-controller-config ConfigMap, and nodes under its strategies."""

import json
from typing import Any

import pytest

from koordpy.cluster.cluster import Cluster

from ....parity.rules.admission_review import ask, chain_of, chains_on, fill

PLACE = {"namespace": "koordinator-system", "name": "slo-controller-config"}
GATES = {"ConfigMapValidatingWebhook": True, "NodeValidatingWebhook": True}


def config_map(**data: Any) -> dict[str, Any]:
    """A ConfigMap; keys are written with underscores."""
    texts = {
        key.replace("_", "-"): value if isinstance(value, str) else json.dumps(value)
        for key, value in data.items()
    }
    return {"kind": "ConfigMap", "metadata": dict(PLACE), "data": texts}


def node(name: str, **labels: str) -> dict[str, Any]:
    return {"kind": "Node", "metadata": {"name": name, "labels": labels}}


def write(
    new: dict[str, Any] | None,
    old: dict[str, Any] | None = None,
    nodes: list[dict[str, Any]] | None = None,
    *,
    operation: str = "",
    **args: Any,
) -> dict[str, Any]:
    request = {
        "uid": "u",
        "operation": operation or ("UPDATE" if old else "CREATE"),
        "resource": {"group": "", "version": "v1", "resource": "configmaps"},
        "object": new,
        "oldObject": old,
    }
    return ask(chain_of("/validate-configmap", nodes or [], GATES, args), request)


def relabel(
    new: dict[str, Any], old: dict[str, Any], config: dict[str, Any], **request: Any
) -> dict[str, Any]:
    resource = {"group": "", "version": "v1", "resource": "nodes"}
    sent = {"uid": "u", "operation": "UPDATE", "resource": resource, "object": new, "oldObject": old}
    return ask(chain_of("/validate-node", [config], GATES), sent | request)


def strategy(name: str, **labels: str) -> dict[str, Any]:
    return {"name": name, "nodeSelector": {"matchLabels": labels}}


def selecting(*expressions: dict[str, Any], **labels: str) -> dict[str, Any]:
    return {"name": "b", "nodeSelector": {"matchLabels": labels, "matchExpressions": list(expressions)}}


def message(answer: dict[str, Any]) -> Any:
    return json.loads(answer["message"].strip("_"))["message"]


@pytest.mark.parametrize(
    ("data", "problems"),
    [
        (
            {"colocation_config": {"metricAggregateDurationSeconds": -1}},
            {
                "ColocationCfg.ColocationStrategy.MetricAggregateDurationSeconds": (
                    "MetricAggregateDurationSeconds must be 1 or greater"
                )
            },
        ),
        (
            {"resource_threshold_config": {"clusterStrategy": {"memoryEvictThresholdPercent": 70}}},
            {
                "ResourceThresholdCfg.ClusterStrategy.MemoryEvictThresholdPercent": (
                    "MemoryEvictThresholdPercent must be greater than MemoryEvictLowerPercent"
                )
            },
        ),
        (
            {"cpu_burst_config": {"clusterStrategy": {"cpuBurstPercent": 10001}}},
            {
                "CPUBurstCfg.ClusterStrategy.CPUBurstConfig.CPUBurstPercent": (
                    "CPUBurstPercent must be 10,000 or less"
                )
            },
        ),
        (
            {"system_config": {"nodeStrategies": [strategy("a", x="y") | {"watermarkScaleFactor": 0}]}},
            {
                "SystemCfg.NodeStrategies[0].SystemStrategy.WatermarkScaleFactor": (
                    "WatermarkScaleFactor must be greater than 0"
                )
            },
        ),
        (
            {
                "system_config": {},
                "resource_qos_config": {
                    "clusterStrategy": {"lsClass": {"resctrlQOS": {"catRangeStartPercent": 101}}}
                },
            },
            {
                "ResourceQOSCfg.ClusterStrategy.LSClass.ResctrlQOS.ResctrlQOS.CATRangeStartPercent": (
                    "CATRangeStartPercent must be 100 or less"
                )
            },
        ),
    ],
)
def test_parameter_out_of_range_is_named(data: dict[str, Any], problems: dict[str, str]) -> None:
    answer = write(config_map(**data))
    assert (answer["code"], answer["reason"]) == (400, "ConfigParamInvalid")
    assert message(answer) == problems


def test_percentage_without_upper_bound_may_exceed_100() -> None:
    assert write(config_map(colocation_config={"memoryReclaimThresholdPercent": 101}))["allowed"]


def test_qos_needs_the_system_configuration() -> None:
    answer = write(config_map(resource_qos_config={}))
    assert answer["reason"] == "ParseConfigFail"
    assert "Failed to parse System config" in message(answer)


@pytest.mark.parametrize("text", ["null", "bad", "[]", '{"enable":1}', '{"nodeConfigs":{}}'])
def test_configuration_of_a_wrong_type_is_refused(text: str) -> None:
    assert write(config_map(colocation_config=text))["reason"] == "ParseConfigFail"


def test_unchanged_and_emptied_keys_are_not_judged() -> None:
    invalid = config_map(colocation_config={"degradeTimeMinutes": 0}, cpu_burst_config="bad")
    assert write(config_map(colocation_config={"degradeTimeMinutes": 0}), invalid)["allowed"]
    assert write(config_map(cpu_burst_config="bad", system_config=""), invalid)["allowed"]


def test_deletion_and_other_config_maps_are_allowed() -> None:
    invalid = config_map(colocation_config="bad")
    assert write(None, invalid, operation="DELETE")["allowed"]
    assert write(invalid | {"metadata": {"namespace": "default", "name": PLACE["name"]}})["allowed"]
    assert not write(
        invalid | {"metadata": {"namespace": "a", "name": "b"}}, configNamespace="a", configName="b"
    )["allowed"]


@pytest.mark.parametrize(
    ("other", "overlaps"),
    [
        (selecting(x="x"), True),
        (selecting(x="x", y="y"), True),
        (selecting({"key": "x", "operator": "In", "values": ["x", "y"]}), True),
        (selecting({"key": "x", "operator": "NotIn", "values": ["y"]}), True),
        (selecting({"key": "x", "operator": "Exists"}), True),
        (selecting({"key": "x", "operator": "DoesNotExist"}), False),
        (selecting({"key": "y", "operator": "DoesNotExist"}), True),
        (selecting(y="y"), False),
    ],
)
def test_strategies_for_one_node_overlap(other: dict[str, Any], overlaps: bool) -> None:
    answer = write(config_map(colocation_config={"nodeConfigs": [strategy("a", x="x"), other]}))
    assert answer["allowed"] is not overlaps
    if overlaps:
        assert message(answer) == {"config": "colocation-config", "strategies": ["a", "b"]}


def test_strategy_without_selector_is_refused() -> None:
    answer = write(config_map(cpu_burst_config={"nodeStrategies": [{"name": "a"}]}))
    assert message(answer).endswith("configType: cpu-burst-config,nodeConfig name:a")


def test_names_are_checked_on_demand() -> None:
    config = config_map(system_config={"nodeStrategies": [strategy("a", x="x"), strategy("a", y="y")]})
    assert write(config)["allowed"]
    assert "confilict" in message(write(config, nodeStrategyNameNeedCheck=True))


def test_node_under_two_strategies_is_refused_from_both_sides() -> None:
    strategies = [strategy("a", x="x"), strategy("b", y="y")]
    config = config_map(cpu_burst_config="bad", colocation_config={"nodeConfigs": strategies})
    only = config_map(colocation_config={"nodeConfigs": strategies})
    both = node("n1", x="x", y="y")
    expected = {"config": "colocation-config", "strategies": ["a", "b"], "exampleNodes": ["n1"]}
    assert message(write(only, nodes=[node("n0", x="x"), both])) == expected
    assert message(relabel(both, node("n1", x="x"), config)) == expected
    assert relabel(both, both, config)["allowed"]
    assert relabel(both, node("n1"), config, operation="CREATE")["allowed"]


def test_a_changed_config_map_counts_for_the_next_node() -> None:
    conflict, none = (
        config_map(colocation_config={"nodeConfigs": [strategy("a", x="x"), strategy("b", **labels)]})
        for labels in ({"y": "y"}, {"z": "z"})
    )
    cluster = Cluster()
    chain = chains_on(cluster, ["/validate-node"], GATES)["/validate-node"]
    request = {
        "uid": "u",
        "operation": "UPDATE",
        "resource": {"group": "", "version": "v1", "resource": "nodes"},
        "object": node("n1", x="x", y="y"),
        "oldObject": node("n1"),
    }
    allowed = []
    for config in (conflict, none, conflict):
        fill(cluster, [config])
        allowed += [ask(chain, request)["allowed"] for _ in range(2)]
    assert allowed == [False, False, True, True, False, False]


def test_selectors_with_many_values_are_compared_in_bounded_time() -> None:
    def values(count: int) -> list[str]:
        return [f"v{at}" for at in range(count)]

    expressions = [
        {"key": f"k{prime}", "operator": "In", "values": values(prime)}
        for prime in (101, 103, 107, 109, 113, 127)
    ]
    answer = write(
        config_map(colocation_config={"nodeConfigs": [selecting(*expressions), strategy("a", x="x")]})
    )
    assert answer["allowed"]


@pytest.mark.parametrize(
    ("qos", "system", "problem"),
    [
        ({"lsrClass": 50, "lsClass": 60}, {}, "percentage already over 100"),
        ({"lsrClass": "10", "lsClass": 10}, {}, "only one type can be used"),
        ({"lsClass": 101}, {}, "just in 0-100"),
        ({"lsClass": "bad"}, {}, "Invalid value"),
        ({"lsClass": 10}, {"totalNetworkBandwidth": "9"}, "over total network bandwidth"),
        ({"lsClass": "50m"}, {"totalNetworkBandwidth": "1"}, ""),
        ({"systemClass": 101}, {"totalNetworkBandwidth": "0"}, ""),
    ],
)
def test_network_requests_fit_the_bandwidth(
    qos: dict[str, Any], system: dict[str, Any], problem: str
) -> None:
    strategy = {name: {"networkQOS": {"ingressRequest": amount}} for name, amount in qos.items()}
    answer = write(
        config_map(
            resource_qos_config={"clusterStrategy": strategy},
            system_config={"clusterStrategy": system} if system else {},
        )
    )
    assert answer["allowed"] is not bool(problem)
    assert problem in answer.get("message", "")
