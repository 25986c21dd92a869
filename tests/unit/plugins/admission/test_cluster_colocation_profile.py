from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordpy.api.koordinator import ClusterColocationProfile

from .pods import BATCH, container, handle, mutated, namespace, pod, priority_class, profile, respond

CPU = {"cpu": "500m", "memory": "1Gi"}
BATCH_CPU = {"kubernetes.io/batch-cpu": "500", "kubernetes.io/batch-memory": "1Gi"}


def labels(document: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = document["metadata"].get("labels", {})
    return found


def resources(document: dict[str, Any], position: int = 0, field: str = "containers") -> dict[str, Any]:
    found: dict[str, Any] = document["spec"][field][position]["resources"]
    return found


def test_full_profile_changes_everything_it_names() -> None:
    out = mutated(
        pod(
            container(requests=CPU, limits=CPU),
            labels={"old": "v", "app": "a"},
            initContainers=[container("init", requests=CPU)],
            overhead=CPU,
            preemptionPolicy="Never",
        ),
        profile(
            selector={"matchLabels": {"app": "a"}},
            labels={"l": "1"},
            annotations={"an": "2"},
            labelKeysMapping={"old": "new", "gone": "empty"},
            annotationKeysMapping={"an": "an2"},
            labelSuffixes={"new": "-s", "absent": "-s"},
            schedulerName="koord-scheduler",
            qosClass="BE",
            priorityClassName="koord-batch",
            koordinatorPriority=1111,
            patch={"spec": {"terminationGracePeriodSeconds": 10}},
        ),
        priority_class("koord-batch", 5000, "PreemptLowerPriority"),
    )
    assert labels(out) == {
        "app": "a",
        "old": "v",
        "l": "1",
        "new": "v-s",
        "empty": "",
        "koordinator.sh/qosClass": "BE",
        "koordinator.sh/priority": "1111",
    }
    annotations = out["metadata"]["annotations"]
    assert (annotations["an"], annotations["an2"]) == ("2", "2")
    spec = out["spec"]
    assert (spec["schedulerName"], spec["priorityClassName"], spec["priority"], spec["preemptionPolicy"]) == (
        "koord-scheduler",
        "koord-batch",
        5000,
        "PreemptLowerPriority",
    )
    assert spec["terminationGracePeriodSeconds"] == 10
    assert resources(out) == {"requests": BATCH_CPU, "limits": BATCH_CPU}
    assert resources(out, field="initContainers") == {"requests": BATCH_CPU}
    assert spec["overhead"] == BATCH_CPU


def test_profiles_apply_by_name_and_see_labels_as_submitted() -> None:
    out = mutated(
        pod(labels={}),
        profile("b", labels={"who": "b"}),
        profile("a", labels={"who": "a", "from": "a"}),
        profile("c", selector={"matchLabels": {"from": "a"}}, labels={"who": "c"}),
    )
    assert labels(out) == {"who": "b", "from": "a"}


def test_namespace_selector_reads_the_namespace() -> None:
    chosen = profile(namespaceSelector={"matchLabels": {"team": "x"}}, labels={"l": "1"})
    assert labels(mutated(pod(), chosen, namespace("ns", team="x"))) == {"l": "1"}
    assert labels(mutated(pod(), chosen, namespace("ns", team="y"))) == {}
    assert labels(mutated(pod(), chosen)) == {"l": "1"}


@pytest.mark.parametrize(("roll", "applied"), [(70, False), (30, True)])
def test_probability_decides_on_the_profile_but_not_on_translation(roll: int, applied: bool) -> None:
    out = mutated(
        pod(container(requests=CPU), priority=5500), profile(labels={"l": "1"}, probability=50), rolls=[roll]
    )
    assert labels(out) == ({"l": "1"} if applied else {})
    assert resources(out)["requests"] == BATCH_CPU


def test_limits_alone_become_requests_too() -> None:
    out = mutated(pod(container(limits=CPU), labels=BATCH), profile())
    assert resources(out) == {"requests": BATCH_CPU, "limits": BATCH_CPU}


def test_requests_alone_stay_without_limits() -> None:
    out = mutated(pod(container(requests=CPU), labels=BATCH), profile())
    assert resources(out) == {"requests": BATCH_CPU}


def test_mid_pod_gets_mid_resources() -> None:
    out = mutated(pod(container(requests={"cpu": "1.5m", "memory": "1024Mi"}), priority=7500), profile())
    assert resources(out)["requests"] == {
        "kubernetes.io/mid-cpu": "2",
        "kubernetes.io/mid-memory": "1Gi",
    }


@pytest.mark.parametrize("priority", [9500, 3500, 0])
def test_prod_and_free_pods_keep_their_resources(priority: int) -> None:
    out = mutated(pod(container(requests=CPU), priority=priority), profile())
    assert resources(out)["requests"] == CPU


def test_pod_without_a_matching_profile_keeps_its_resources() -> None:
    submitted = pod(container(requests=CPU), labels=BATCH)
    assert mutated(submitted, profile(selector={"matchLabels": {"no": "match"}})) == submitted


def test_skip_annotation_of_one_matching_profile_keeps_resources() -> None:
    skipping = profile("b", marks={"config.koordinator.sh/skip-update-resources": ""}, probability=0)
    out = mutated(pod(container(requests=CPU), labels=BATCH), profile("a"), skipping)
    assert resources(out)["requests"] == CPU


def test_gate_keeps_resources() -> None:
    out = mutated(
        pod(container(requests=CPU), labels=BATCH), profile(), ColocationProfileSkipMutatingResources=True
    )
    assert resources(out)["requests"] == CPU


def test_scheduler_name_label_does_not_touch_the_spec() -> None:
    out = mutated(
        pod(schedulerName="default-scheduler"),
        profile(labels={"scheduling.koordinator.sh/scheduler-name": "x"}),
    )
    assert out["spec"]["schedulerName"] == "default-scheduler"


def test_priority_class_without_a_preemption_policy_clears_it() -> None:
    out = mutated(pod(preemptionPolicy="Never"), profile(priorityClassName="pc"), priority_class("pc", -10))
    assert out["spec"]["priority"] == -10
    assert "preemptionPolicy" not in out["spec"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"priorityClassName": "gone"}, 'PriorityClass.scheduling.k8s.io "gone" not found'),
        ({"probability": "50"}, "string is not a percentage"),
        ({"patch": {"spec": "x"}}, "spec"),
        ({"patch": {"spec": {"containers": [{"image": "no-name"}]}}}, "name"),
        ({"patch": {"spec": {"priority": "high"}}}, "Pod.spec.priority: expected an integer, got a string"),
    ],
)
def test_profile_that_fails_refuses_the_pod_unchanged(spec: dict[str, Any], message: str) -> None:
    submitted = pod()
    response = respond(submitted, handle(profile("a", labels={"l": "1"}), profile("b", **spec)))
    assert response["status"]["code"] == 500
    assert message in response["status"]["message"]
    assert response["object"] == submitted


def test_patch_merges_containers_by_name_and_puts_new_ones_first() -> None:
    patch = {"spec": {"containers": [{"name": "side", "image": "s"}, {"name": "main", "image": "m"}]}}
    out = mutated(pod(container("main"), container("other")), profile(patch=patch))
    assert [(item["name"], item.get("image")) for item in out["spec"]["containers"]] == [
        ("side", "s"),
        ("main", "m"),
        ("other", None),
    ]


def test_patch_drops_what_pods_do_not_have_and_keeps_what_the_pod_had() -> None:
    submitted = pod()
    submitted["spec"]["future"] = {"a": 1}
    out = mutated(submitted, profile(patch={"spec": {"schedulername": "s", "nonsense": 1}}))
    assert out["spec"]["schedulerName"] == "s"
    assert out["spec"]["future"] == {"a": 1}
    assert "nonsense" not in out["spec"]


def test_patch_does_not_reformat_what_it_does_not_touch() -> None:
    submitted = pod(container(requests={"cpu": "1000m", "memory": 1073741824}))  # type: ignore[dict-item]
    out = mutated(submitted, profile(patch={"metadata": {"labels": {"l": "1"}}}), priority_class("x", 1))
    assert resources(out) == {"requests": {"cpu": "1000m", "memory": 1073741824}}


ELSEWHERE = {"metadata": {"namespace": "elsewhere"}}
NO_NAMESPACE = {"metadata": {"namespace": None}}


@pytest.mark.parametrize("sent", [{}, {"namespace": ""}, {"namespace": None}])
@pytest.mark.parametrize(
    "patch",
    [ELSEWHERE, NO_NAMESPACE, {"metadata": {"$patch": "replace", "name": "pod", "namespace": "elsewhere"}}],
)
def test_pod_that_was_sent_without_a_namespace_gets_none_from_a_patch(
    sent: dict[str, Any], patch: dict[str, Any]
) -> None:
    submitted = pod()
    submitted["metadata"] = {"name": "pod", **sent}
    assert mutated(submitted, profile(patch=patch)) == submitted


def test_pod_that_was_sent_without_metadata_keeps_being_without_a_namespace() -> None:
    submitted = pod()
    del submitted["metadata"]
    assert mutated(submitted, profile(patch=ELSEWHERE)) == submitted
    labelled = profile(patch={"metadata": {"namespace": "elsewhere", "labels": {"l": "1"}}})
    assert mutated(submitted, labelled)["metadata"] == {"labels": {"l": "1"}}


@pytest.mark.parametrize(
    ("patches", "namespaces"),
    [
        ([ELSEWHERE], {"namespace": "elsewhere"}),
        ([NO_NAMESPACE], {}),
        ([NO_NAMESPACE, ELSEWHERE], {"namespace": "elsewhere"}),
        ([{"metadata": {"$patch": "delete"}}, ELSEWHERE], {"namespace": "elsewhere"}),
    ],
)
def test_pod_that_names_its_namespace_gets_the_one_of_the_patches(
    patches: list[dict[str, Any]], namespaces: dict[str, str]
) -> None:
    profiles = [profile(f"p{position}", patch=patch) for position, patch in enumerate(patches)]
    metadata = mutated(pod(), *profiles)["metadata"]
    assert {key: value for key, value in metadata.items() if key == "namespace"} == namespaces


def test_later_changes_of_profiles_are_seen() -> None:
    known = handle(profile(labels={"l": "1"}))
    assert labels(respond(pod(), known)["object"]) == {"l": "1"}
    known.cluster.store(ClusterColocationProfile).discard("p")
    assert labels(respond(pod(), known)["object"]) == {}


AMOUNTS = st.none() | st.dictionaries(
    st.sampled_from(["cpu", "memory", "kubernetes.io/batch-cpu", "kubernetes.io/mid-memory"]),
    st.none() | st.sampled_from(["1", "1500u", "-1", "1.5Gi", "1e30", "0"]) | st.integers(-5, 5000),
)
CONTAINERS = st.none() | st.lists(
    st.none()
    | st.fixed_dictionaries(
        {},
        optional={
            "name": st.none() | st.sampled_from(["a", "b"]),
            "resources": st.none()
            | st.fixed_dictionaries({}, optional={"requests": AMOUNTS, "limits": AMOUNTS}),
        },
    ),
    max_size=3,
)
TEXTS = st.none() | st.dictionaries(
    st.sampled_from(["app", "koordinator.sh/qosClass", "koordinator.sh/priority-class"]),
    st.none() | st.sampled_from(["BE", "koord-mid", ""]),
)
PODS = st.fixed_dictionaries(
    {},
    optional={
        "metadata": st.none()
        | st.fixed_dictionaries({}, optional={"labels": TEXTS, "annotations": TEXTS, "name": st.none()}),
        "spec": st.none()
        | st.fixed_dictionaries(
            {},
            optional={
                "containers": CONTAINERS,
                "initContainers": CONTAINERS,
                "overhead": AMOUNTS,
                "priority": st.none() | st.sampled_from([5500, 7500, 9500]),
                "schedulerName": st.none(),
            },
        ),
    },
)
PROFILES = (
    profile(
        "a",
        labels={"l": "1"},
        labelKeysMapping={"app": "app2"},
        labelSuffixes={"app": "-s"},
        annotationKeysMapping={"app": "x"},
        schedulerName="s",
        koordinatorPriority=3,
    ),
    profile("b", patch={"spec": {"containers": [{"name": "a", "image": "i"}], "overhead": {"cpu": None}}}),
)


@given(PODS, st.integers(0, 2))
def test_pod_with_nulls_anywhere_is_admitted_and_stays_readable(
    submitted: dict[str, Any], count: int
) -> None:
    known = handle(*PROFILES[:count])
    response = respond(submitted, known)
    message = response["status"].get("message", "")
    assert response["allowed"] or "name" in message, message
    assert respond(response["object"], known)["status"]["code"] in (200, 500)
