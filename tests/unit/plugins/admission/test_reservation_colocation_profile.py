from typing import Any

import pytest

from .pods import container, handle, priority_class, profile, respond

POD_SPEC: dict[str, Any] = {"containers": [container(requests={"cpu": "1"})]}


def reservation(template: Any = None, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "r", "labels": labels or {}}
    if template is not None:
        spec["template"] = template
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Reservation",
        "metadata": metadata,
        "spec": {"owners": [], **spec},
    }


def admit(admitted: dict[str, Any], *objects: dict[str, Any], operation: str = "CREATE") -> dict[str, Any]:
    to = handle(*objects, ReservationMutatingWebhook=True)
    resource = {"resource": "reservations"}
    return respond(admitted, to, "/mutate-reservation", resource=resource, namespace="", operation=operation)


def mutated(admitted: dict[str, Any], *objects: dict[str, Any]) -> dict[str, Any]:
    response = admit(admitted, *objects)
    assert response["allowed"], response
    result: dict[str, Any] = response["object"]
    return result


def test_labels_and_qos_are_the_reservations_own() -> None:
    own = profile(
        labels={"a": "1"},
        annotations={"b": "2"},
        qosClass="BE",
        koordinatorPriority=7,
        labelSuffixes={"l": "-x"},
    )
    out = mutated(reservation({"metadata": {}, "spec": POD_SPEC}, labels={"l": "v"}), own)
    assert out["metadata"]["annotations"] == {"b": "2"}
    assert out["metadata"]["labels"] == {
        "a": "1",
        "koordinator.sh/priority": "7",
        "koordinator.sh/qosClass": "BE",
        "l": "v-x",
    }
    assert out["spec"]["template"] == {"metadata": {}, "spec": POD_SPEC}


def test_scheduler_and_priority_class_are_the_templates() -> None:
    own = profile(schedulerName="s", priorityClassName="batch")
    out = mutated(reservation({"spec": POD_SPEC}), own, priority_class("batch", 5000, "Never"))
    assert out["spec"]["template"]["spec"] == POD_SPEC | {
        "schedulerName": "s",
        "priorityClassName": "batch",
        "priority": 5000,
        "preemptionPolicy": "Never",
    }


@pytest.mark.parametrize("template", [None, {}], ids=["absent", "empty"])
def test_missing_priority_class_matters_only_where_there_is_a_template(template: Any) -> None:
    response = admit(reservation(template), profile(schedulerName="s", priorityClassName="gone"))
    assert response["status"]["code"] == (200 if template is None else 500)
    assert response["object"] == reservation(template)


def test_resources_are_not_translated() -> None:
    submitted = reservation({"spec": POD_SPEC | {"priority": 5500}}, labels={"koordinator.sh/qosClass": "BE"})
    assert mutated(submitted, profile()) == submitted


def test_namespace_selector_does_not_count_and_selector_reads_the_reservations_labels() -> None:
    own = profile(
        namespaceSelector={"matchLabels": {"no": "namespace"}},
        selector={"matchLabels": {"app": "a"}},
        labels={"found": "1"},
    )
    of_template = reservation({"metadata": {"labels": {"app": "a"}}, "spec": POD_SPEC})
    assert mutated(of_template, own) == of_template
    assert mutated(reservation(labels={"app": "a"}), own)["metadata"]["labels"]["found"] == "1"


def test_patch_is_merged_by_the_reservations_types() -> None:
    patch = {
        "spec": {
            "ttl": "90m",
            "owners": [{"object": {"name": "p"}}],
            "template": {"spec": {"containers": [{"name": "main", "image": "i"}]}},
            "containers": [{"name": "of a pod"}],
        }
    }
    out = mutated(reservation({"metadata": {}, "spec": POD_SPEC}), profile(patch=patch))
    assert out["spec"] == {
        "ttl": "1h30m0s",
        "owners": [{"object": {"name": "p"}}],
        "template": {
            "metadata": {},
            "spec": {"containers": [container(requests={"cpu": "1"}) | {"image": "i"}]},
        },
    }


@pytest.mark.parametrize(
    "patch",
    [{"spec": {"ttl": "soon"}}, {"spec": {"template": "x"}}, {"spec": {"$setElementOrder/containers": []}}],
)
def test_patch_that_does_not_fit_refuses_the_reservation(patch: dict[str, Any]) -> None:
    assert admit(reservation(), profile(patch=patch))["status"]["code"] == 500


def test_malformed_duration_refuses_the_reservation() -> None:
    response = admit(reservation(ttl="soon"))
    assert response["status"]["code"] == 400
    assert "ttl" in response["status"]["message"]


def test_only_creation_is_answered_with_changes() -> None:
    response = admit(reservation(), profile(labels={"a": "1"}), operation="UPDATE")
    assert response["object"] == reservation()
