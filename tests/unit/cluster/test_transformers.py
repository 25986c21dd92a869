"""Transformation of objects on their way into a store."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordpy.api.core import Node, Pod
from koordpy.api.deprecated_resources import elastic_quota_with_present_names
from koordpy.api.device import Device
from koordpy.api.koordinator import ElasticQuota
from koordpy.api.scheme import decode
from koordpy.cluster import transformers
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.columns import CPU, MEMORY
from koordpy.lib.feature_gates import FeatureGates

PRIORITY, PREEMPTION, REPLACE = (
    transformers.PRIORITY_TRANSFORMER,
    transformers.PREEMPTION_POLICY_TRANSFORMER,
    transformers.REPLACE_RESOURCES_TRANSFORMER,
)
ALLOCATED = "scheduling.koordinator.sh/device-allocated"


def gates(*on: str) -> FeatureGates:
    return FeatureGates(transformers.SPECS, dict.fromkeys(on, True))


def pod(
    requests: dict[str, Any] | None = None,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> Pod:
    resources = {"requests": requests or {}, "limits": requests or {}}
    document = {
        "metadata": {
            "name": "p", "namespace": "d", "uid": "u",
            "labels": labels or {}, "annotations": annotations or {},
        },
        "spec": {
            "containers": [{"name": "c", "resources": resources}],
            "initContainers": [{"name": "i", "resources": resources}],
            "overhead": requests or {},
            **spec,
        },
    }  # fmt: skip
    return decode(Pod, document)


def transformed(incoming: Pod, *on: str) -> Pod:
    return transformers.pod_transformer(gates(*on))(incoming)


def node(allocatable: dict[str, Any], **annotations: Any) -> Node:
    texts = {
        f"node.koordinator.sh/{name}": value if isinstance(value, str) else json.dumps(value)
        for name, value in annotations.items()
    }
    return decode(
        Node,
        {
            "metadata": {"name": "n", "annotations": texts},
            "status": {"allocatable": allocatable, "capacity": allocatable},
        },
    )


class TestPods:
    def test_deprecated_names_are_replaced_in_all_requests_of_a_pod(self) -> None:
        old = {"koordinator.sh/batch-cpu": "1k", "kubernetes.io/gpu-core": 50, "cpu": "1"}
        new = {"kubernetes.io/batch-cpu": "1k", "koordinator.sh/gpu-core": 50, "cpu": "1"}
        spec = transformed(pod(old)).spec
        for container in (*spec.containers, *spec.init_containers):
            assert container.resources.requests == new
            assert container.resources.limits == new
        assert spec.overhead == new

    def test_overhead_alone_is_replaced_too(self) -> None:
        spec = transformed(pod({}, overhead={"kubernetes.io/rdma": 1})).spec
        assert spec.overhead == {"koordinator.sh/rdma": 1}

    def test_an_old_name_stays_beside_the_present_one(self) -> None:
        both = {"koordinator.sh/batch-memory": "1Gi", "kubernetes.io/batch-memory": "2Gi"}
        assert transformed(pod(both)).spec.containers[0].resources.requests == both

    def test_device_allocations_get_present_names(self) -> None:
        text = '{"gpu":[{"minor":1,"resources":{"kubernetes.io/gpu-core":"100","x/y":1}}],"rdma":null}'
        changed = transformed(pod(annotations={ALLOCATED: text, "other": "1"})).metadata.annotations
        assert json.loads(changed[ALLOCATED]) == {
            "gpu": [{"minor": 1, "resources": {"koordinator.sh/gpu-core": "100", "x/y": 1}}],
            "rdma": None,
        }
        assert changed["other"] == "1"

    @pytest.mark.parametrize(
        "text",
        [
            '{"gpu":[{"resources":{"koordinator.sh/gpu-core":"100"}}]}',
            '{"gpu":[{"resources":"kubernetes.io/gpu-core"}]}',
            '["kubernetes.io/gpu-core"',
            '{"gpu":[{"id":"kubernetes.io/gpu-core"}]}',
            '{"gpu":[{"id":"kubernetes.io/gpu-core", "resources":null}]}',
        ],
    )
    def test_device_allocations_that_cannot_be_read_or_are_current_stay_as_they_are(self, text: str) -> None:
        incoming = pod(annotations={ALLOCATED: text})
        assert transformed(incoming) is incoming

    def test_resources_are_replaced_only_with_the_gate_and_after_old_names(self) -> None:
        annotations = {"pod.koordinator.sh/replace-resources": "kubernetes.io/batch-cpu:cpu,memory:"}
        incoming = pod({"koordinator.sh/batch-cpu": "2", "memory": "1Gi"}, annotations=annotations)
        assert transformed(incoming).spec.overhead == {"kubernetes.io/batch-cpu": "2", "memory": "1Gi"}
        assert transformed(incoming, REPLACE).spec.overhead == {"cpu": "2"}

    @pytest.mark.parametrize(
        ("priority", "label", "expected"),
        [(5, "koord-batch", 5), (0, "koord-batch", 5500), (None, "koord-mid", 7500), (None, "other", 9500)],
    )
    def test_a_pod_without_priority_gets_that_of_its_class_with_the_gate(
        self, priority: int | None, label: str, expected: int
    ) -> None:
        labels = {"koordinator.sh/priority-class": label, "koordinator.sh/qosClass": "LS"}
        incoming = pod(labels=labels, priority=priority) if priority is not None else pod(labels=labels)
        assert transformed(incoming) is incoming
        assert transformed(incoming, PRIORITY).spec.priority == expected

    @pytest.mark.parametrize(
        ("label", "policy"),
        [("PreemptLowerPriority", "PreemptLowerPriority"), ("Never", "Never"), ("", "Never"), ("x", "Never")],
    )
    def test_the_preemption_policy_is_the_labels_with_the_gate(self, label: str, policy: str) -> None:
        labels = {"scheduling.koordinator.sh/preemption-policy": label}
        incoming = pod(labels=labels, preemptionPolicy="PreemptLowerPriority")
        assert transformed(incoming) is incoming
        assert transformed(incoming, PREEMPTION).spec.preemption_policy == policy

    @pytest.mark.parametrize("name", ["koord-scheduler", ""])
    def test_the_label_overrides_the_scheduler_name_and_the_original_is_kept(self, name: str) -> None:
        incoming = pod(labels={"scheduling.koordinator.sh/scheduler-name": name}, schedulerName="mine")
        changed = transformed(incoming)
        assert changed.spec.scheduler_name == name
        key = "internal.scheduling.koordinator.sh/original-scheduler-name"
        assert changed.metadata.annotations == {key: "mine"}
        assert transformed(changed) is changed

    def test_a_label_that_says_the_same_changes_nothing(self) -> None:
        incoming = pod(labels={"scheduling.koordinator.sh/scheduler-name": "a"}, schedulerName="a")
        assert transformed(incoming) is incoming


class TestNodes:
    def test_what_is_reserved_is_taken_off_and_never_more_than_there_is(self) -> None:
        reservation = {"resources": {"cpu": "500m", "memory": "3Gi", "x/y": 1}}
        changed = transformers.transformed_node(node({"cpu": 4, "memory": "2Gi"}, reservation=reservation))
        assert changed.status.allocatable == {
            "cpu": "3500m",
            "memory": "0",
            "x/y": "0",
            "kubernetes.io/batch-cpu": "0",
            "kubernetes.io/batch-memory": "0",
        }
        assert changed.status.capacity == {"cpu": 4, "memory": "2Gi"}

    def test_listed_cpus_count_instead_of_an_amount(self) -> None:
        reservation = {"resources": {"cpu": 7}, "reservedCPUs": "0-1,4", "applyPolicy": "Default"}
        changed = transformers.transformed_node(node({"cpu": "8"}, reservation=reservation))
        assert changed.status.allocatable["cpu"] == "5"

    def test_batch_amounts_stay_and_old_names_stay_beside_them(self) -> None:
        allocatable = {"cpu": 4, "koordinator.sh/batch-cpu": "1k", "kubernetes.io/batch-memory": "1Gi"}
        reservation = {"resources": {"cpu": 1, "kubernetes.io/batch-memory": "1Gi"}}
        changed = transformers.transformed_node(node(allocatable, reservation=reservation))
        assert changed.status.allocatable == {
            "cpu": "3",
            "koordinator.sh/batch-cpu": "1k",
            "kubernetes.io/batch-cpu": "0",
            "kubernetes.io/batch-memory": "1Gi",
        }

    @pytest.mark.parametrize(
        "reservation",
        [
            "{", "null", "{}", {"resources": {"cpu": 0}}, {"resources": {"cpu": "x"}}, {"reservedCPUs": "1-"},
            {"resources": {"cpu": 1}, "applyPolicy": "ReservedCPUsOnly"},
            {"resources": {"cpu": 1}, "applyPolicy": "other"},
        ],
    )  # fmt: skip
    def test_a_reservation_that_reserves_nothing_here_changes_nothing(self, reservation: Any) -> None:
        incoming = node({"cpu": 4}, reservation=reservation)
        assert transformers.transformed_node(incoming) is incoming

    def test_old_names_are_replaced_in_allocatable_and_capacity(self) -> None:
        changed = transformers.transformed_node(
            node({"koordinator.sh/batch-cpu": 1, "kubernetes.io/fpga": 2})
        )
        present = {"kubernetes.io/batch-cpu": 1, "koordinator.sh/fpga": 2}
        assert changed.status.allocatable == changed.status.capacity == present


def test_devices_get_present_names() -> None:
    cluster = Cluster()
    transformers.install(cluster, gates())
    devices = {"devices": [{"type": "gpu", "health": True, "resources": {"kubernetes.io/gpu": 1}}]}
    cluster.store(Device).apply(decode(Device, {"metadata": {"name": "n"}, "spec": devices}))
    device = cluster.store(Device).get("", "n")
    assert device is not None
    assert device.spec.devices[0].resources == {"koordinator.sh/gpu": 1}


def test_min_and_max_of_quotas_have_present_names_for_the_quota_plugin() -> None:
    bounds = {"min": {"koordinator.sh/batch-cpu": 1}, "max": {"koordinator.sh/batch-memory": 2}}
    quota = decode(ElasticQuota, {"metadata": {"name": "q", "namespace": "d"}, "spec": bounds})
    spec = elastic_quota_with_present_names(quota).spec
    assert (spec.min, spec.max) == ({"kubernetes.io/batch-cpu": 1}, {"kubernetes.io/batch-memory": 2})


def test_the_node_table_sees_transformed_objects_only() -> None:
    cluster = Cluster()
    table = cluster.nodes
    transformers.install(cluster, gates())
    cluster.store(Node).apply(node({"cpu": 4, "memory": "2Gi"}, reservation={"resources": {"cpu": 1}}))
    cluster.store(Pod).apply(pod({"koordinator.sh/batch-cpu": 1000}, nodeName="n"))
    row = table.row_of("n")
    assert row is not None
    assert table.allocatable[row, [CPU, MEMORY]].tolist() == [3000, 2 << 30]
    batch = table.resources.get("kubernetes.io/batch-cpu")
    assert table.requested[row, batch] == 2000
    assert "koordinator.sh/batch-cpu" not in table.resources


names = st.sampled_from(["cpu", "kubernetes.io/gpu", "koordinator.sh/gpu", "koordinator.sh/batch-cpu", "a/b"])
amounts = st.dictionaries(names, st.sampled_from(["1", 2, "500m"]))


@given(amounts, st.sampled_from(["", "s", "t"]), st.sets(st.sampled_from([PRIORITY, PREEMPTION, REPLACE])))
def test_what_is_transformed_already_is_not_changed_again(
    requests: dict[str, Any], name: str, on: set[str]
) -> None:
    labels = {"scheduling.koordinator.sh/scheduler-name": name}
    once = transformed(pod(requests, labels=labels, schedulerName="s"), *on)
    assert transformed(once, *on) == once


def versioned(version: str, uid: str = "u", **labels: str) -> Pod:
    metadata = {"name": "p", "namespace": "d", "uid": uid, "resourceVersion": version, "labels": labels}
    return decode(Pod, {"metadata": metadata})


@pytest.mark.parametrize(
    ("incoming", "is_stored"),
    [
        (versioned("7", app="caller"), True),
        (versioned("8", app="caller"), False),
        (versioned("7", uid="another", app="caller"), False),
        (versioned("", app="caller"), False),
    ],
)
def test_an_object_of_a_call_is_the_stored_one_of_the_same_version(incoming: Pod, is_stored: bool) -> None:
    cluster = Cluster()
    store = cluster.store(Pod)
    store.apply(versioned("" if not incoming.metadata.resource_version else "7", app="stored"))
    found = store.stored(incoming)
    assert (found is store.get("d", "p")) is is_stored
    assert found.metadata.labels == {"app": "stored" if is_stored else "caller"}


def test_an_object_of_a_call_that_is_not_stored_is_transformed() -> None:
    cluster = Cluster()
    transformers.install(cluster, gates(PREEMPTION))
    found = cluster.store(Pod).stored(versioned("7"))
    assert found.spec.preemption_policy == "Never"
