"""Pods: defaults, QoS class, validation of specs and of changes."""

from typing import Any

import pytest

from koordpy.api.canonical_quantities import NotAQuantity
from koordpy.api.pods import defaults as pod_defaults
from koordpy.api.pods import validation as pod_validation
from koordpy.embedded.apiserver.errors import ApiError
from koordpy.embedded.apiserver.kinds.pods import PodStrategy


def spec(**fields: Any) -> dict[str, Any]:
    found = {"containers": [{"name": "main", "image": "registry.test/app:1"}], **fields}
    pod_defaults.default_pod_spec(found)
    return found


def container(**resources: dict[str, Any]) -> dict[str, Any]:
    return {"name": "main", "image": "app:1", "resources": resources}


def fields(causes: Any) -> set[str]:
    return {cause.field for cause in causes}


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("app", "Always"),
        ("app:latest", "Always"),
        ("host:5000/app", "Always"),
        ("host:5000/app:1", "IfNotPresent"),
        ("app@sha256:0", "IfNotPresent"),
    ],
)
def test_pull_policy_follows_from_the_tag(image: str, policy: str) -> None:
    found = spec(containers=[{"name": "main", "image": image}])
    assert found["containers"][0]["imagePullPolicy"] == policy


def test_quantities_become_canonical_and_requests_follow_limits() -> None:
    found = spec(containers=[container(limits={"cpu": 0.5, "memory": "1024Mi"})])
    resources = found["containers"][0]["resources"]
    assert resources == {
        "limits": {"cpu": "500m", "memory": "1Gi"},
        "requests": {"cpu": "500m", "memory": "1Gi"},
    }


def test_quantity_that_is_none_is_refused() -> None:
    with pytest.raises(NotAQuantity, match=r"requests\[cpu\]"):
        spec(containers=[container(requests={"cpu": "many"})])
    wrong = {"spec": {"containers": [container(requests={"cpu": "many"})]}}
    with pytest.raises(ApiError, match=r"requests\[cpu\]"):
        PodStrategy().default(wrong)


def test_default_twice_changes_nothing() -> None:
    found = spec(volumes=[{"name": "v"}, {"name": "s", "secret": {"secretName": "x"}}])
    again = spec(**found)
    assert again == found


def test_all_containers_must_be_guaranteed() -> None:
    full = {"limits": {"cpu": "1", "memory": "1Gi"}}
    guaranteed = {"name": "a", "image": "x", "resources": dict(full)}
    assert pod_defaults.qos_class(spec(containers=[guaranteed])) == "Guaranteed"
    mixed = spec(containers=[guaranteed, {"name": "b", "image": "x"}])
    assert pod_defaults.qos_class(mixed) == "Burstable"


def test_valid_spec_has_no_causes() -> None:
    assert fields(pod_validation.validate_spec(spec(), "spec")) == set()


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"volumes": [{"name": "v"}, {"name": "v"}]}, "spec.volumes[1].name"),
        ({"schedulingGates": [{"name": "a/b"}], "nodeName": "n"}, "spec.nodeName"),
        ({"tolerations": [{"value": "x"}]}, "spec.tolerations[0].operator"),
        ({"nodeSelector": {"a": "no spaces"}}, "spec.nodeSelector"),
        ({"initContainers": [{"name": "main", "image": "x"}]}, "spec.initContainers[0].name"),
        ({"containers": [container(requests={"gpu": "1"})]}, "spec.containers[0].resources.requests[gpu]"),
        ({"containers": [container(requests={"a.b/gpu": "1"})]}, "spec.containers[0].resources.limits"),
        ({"containers": [container(requests={"cpu": "-1"})]}, "spec.containers[0].resources.requests[cpu]"),
    ],
    ids=str,
)
def test_wrong_field_is_named(change: dict[str, Any], field: str) -> None:
    assert field in fields(pod_validation.validate_spec(spec(**change), "spec"))


@pytest.mark.parametrize(
    ("before", "after", "refused"),
    [
        ({}, {"nodeName": "n"}, {"spec"}),
        ({}, {"schedulingGates": [{"name": "a/b"}]}, {"spec.schedulingGates"}),
        ({"schedulingGates": [{"name": "a/b"}]}, {}, set()),
        ({"schedulingGates": [{"name": "a/b"}]}, {"nodeSelector": {"a": "b"}}, set()),
        ({}, {"nodeSelector": {"a": "b"}}, {"spec"}),
        ({}, {"tolerations": [{"key": "a", "operator": "Exists"}]}, set()),
        ({"tolerations": [{"key": "a", "operator": "Exists"}]}, {}, {"spec.tolerations"}),
        ({}, {"activeDeadlineSeconds": 5}, set()),
    ],
    ids=str,
)
def test_few_fields_of_a_spec_can_change(
    before: dict[str, Any], after: dict[str, Any], refused: set[str]
) -> None:
    old, new = {"spec": spec(**before)}, {"spec": spec(**after)}
    assert fields(pod_validation.validate_update(new, old)) == refused


@pytest.mark.parametrize(
    ("pod", "asked", "grace"),
    [
        ({"spec": {"terminationGracePeriodSeconds": 30}}, None, 0),
        ({"spec": {"nodeName": "n", "terminationGracePeriodSeconds": 30}}, None, 30),
        ({"spec": {"nodeName": "n", "terminationGracePeriodSeconds": 30}}, 5, 5),
        ({"spec": {"nodeName": "n"}, "status": {"phase": "Succeeded"}}, 5, 0),
    ],
)
def test_only_pods_that_may_run_are_given_time(pod: dict[str, Any], asked: int | None, grace: int) -> None:
    assert PodStrategy().grace_period(pod, asked) == grace
