"""Defaults and validation of built-in kinds."""

from typing import Any

import pytest

from koordpy.api.patch import clone
from koordpy.embedded.apiserver import catalog
from koordpy.embedded.apiserver.errors import ApiError
from koordpy.embedded.apiserver.kinds import smaller as kinds

SERVED = {(served.group, served.kind): served for served in catalog.built_in()}
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "main", "image": "app"}]}}
SELECTOR = {"matchLabels": {"a": "b"}}


def read(group: str, kind: str, **fields: Any) -> dict[str, Any]:
    document = {"metadata": {"name": "x"}, **clone(fields)}
    return kinds.of(group, kind).read(SERVED[group, kind], document, [])


def wrong(group: str, kind: str, **fields: Any) -> set[str]:
    strategy = kinds.of(group, kind)
    return {cause.field for cause in strategy.validate(read(group, kind, **fields))}


@pytest.mark.parametrize(
    ("group", "kind", "fields"),
    [
        ("apps", "Deployment", {"spec": {"selector": SELECTOR, "template": TEMPLATE}}),
        ("apps", "StatefulSet", {"spec": {"selector": SELECTOR, "template": TEMPLATE}}),
        ("apps", "DaemonSet", {"spec": {"selector": SELECTOR, "template": TEMPLATE}}),
        (
            "batch",
            "CronJob",
            {"spec": {"schedule": "@daily", "jobTemplate": {"spec": {"template": TEMPLATE}}}},
        ),
        ("", "ReplicationController", {"spec": {"template": TEMPLATE}}),
        ("", "Service", {"spec": {"ports": [{"port": 80}]}}),
        ("", "Secret", {"data": {"key": "dmFsdWU="}}),
        ("", "Node", {"status": {"capacity": {"cpu": "4000m"}}}),
        ("", "PersistentVolumeClaim", {"spec": {"resources": {"requests": {"storage": "1024Mi"}}}}),
        ("scheduling.k8s.io", "PriorityClass", {"value": 5}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_was_read_reads_the_same_again(group: str, kind: str, fields: dict[str, Any]) -> None:
    once = read(group, kind, **fields)
    assert kinds.of(group, kind).read(SERVED[group, kind], clone(once), []) == once


@pytest.mark.parametrize(
    ("group", "kind", "fields", "field"),
    [
        ("apps", "Deployment", {"spec": {"template": TEMPLATE}}, "spec.selector"),
        (
            "apps",
            "DaemonSet",
            {"spec": {"selector": {"matchLabels": {"a": "c"}}, "template": TEMPLATE}},
            "spec.template.metadata.labels",
        ),
        ("batch", "Job", {"spec": {"template": TEMPLATE}}, "spec.template.spec.restartPolicy"),
        ("", "Node", {"spec": {"taints": [{"key": "a"}]}}, "metadata.taints[0].effect"),
        ("", "ConfigMap", {"data": {"no/file": "x"}}, "data[no/file]"),
        ("policy", "PodDisruptionBudget", {"spec": {"minAvailable": "101%"}}, "spec.minAvailable"),
        ("policy", "PodDisruptionBudget", {"spec": {"maxUnavailable": "many"}}, "spec.maxUnavailable"),
        ("scheduling.k8s.io", "PriorityClass", {"value": 1 << 31}, "value"),
        ("", "PersistentVolumeClaim", {}, "spec.accessModes"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wrong_field_is_named(group: str, kind: str, fields: dict[str, Any], field: str) -> None:
    assert field in wrong(group, kind, **fields)


@pytest.mark.parametrize(
    ("group", "kind", "fields"),
    [
        ("coordination.k8s.io", "Lease", {"spec": {"renewTime": "2026-01-01T00:00:00Z"}}),
        ("events.k8s.io", "Event", {"eventTime": "now"}),
        ("", "Secret", {"data": {"key": "no base64!"}}),
        ("apps", "Deployment", {"spec": {"replicas": "three"}}),
        ("", "Node", {"status": {"allocatable": {"cpu": "lots"}}}),
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration", {"webhooks": [{"rules": {}}]}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_document_of_wrong_types_cannot_be_read(group: str, kind: str, fields: dict[str, Any]) -> None:
    with pytest.raises(ApiError) as refusal:
        read(group, kind, **fields)
    assert refusal.value.code == 400


def test_event_of_the_new_group_is_kept_under_the_old_names() -> None:
    event = read("events.k8s.io", "Event", note="it broke", regarding={"name": "a"})
    assert (event["message"], event["involvedObject"]) == ("it broke", {"name": "a"})
    revealed = kinds.of("events.k8s.io", "Event").reveal(SERVED["events.k8s.io", "Event"], event)
    assert (revealed["note"], revealed["regarding"]) == ("it broke", {"name": "a"})
