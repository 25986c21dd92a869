"""The webhook configurations of `deploy/webhooks`: Koordinator's entries, on the paths that we serve."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from koordpy.admission.paths import PATHS

FOLDER = Path(__file__).parents[3] / "deploy" / "webhooks"
CONFIGURATIONS = [
    document
    for name in ("mutating", "validating")
    for document in yaml.safe_load_all((FOLDER / f"{name}.yaml").read_text())
]
WEBHOOKS: dict[str, dict[str, Any]] = {
    webhook["name"]: webhook for document in CONFIGURATIONS for webhook in document["webhooks"]
}

USERS = {"matchExpressions": [{"key": "control-plane", "operator": "DoesNotExist"}]}
MARKED = {
    "matchExpressions": [{"key": "pod.koordinator.sh/mutating-update", "operator": "In", "values": ["true"]}]
}


def test_names_are_unique() -> None:
    names = [document["metadata"]["name"] for document in CONFIGURATIONS]
    assert len(set(names)) == len(names)
    assert len(WEBHOOKS) == sum(len(document["webhooks"]) for document in CONFIGURATIONS)


@pytest.mark.parametrize("document", CONFIGURATIONS, ids=lambda document: document["metadata"]["name"])
def test_kind_of_configuration_is_what_its_paths_do(document: dict[str, Any]) -> None:
    types = {PATHS[webhook["clientConfig"]["service"]["path"]].type for webhook in document["webhooks"]}
    assert [f"{type_.removesuffix('e')}ing" for type_ in types] == [
        document["kind"].removesuffix("WebhookConfiguration").lower()
    ]


@pytest.mark.parametrize("name", WEBHOOKS)
def test_webhook_rules_match_what_its_path_handles(name: str) -> None:
    webhook = WEBHOOKS[name]
    path = PATHS[webhook["clientConfig"]["service"]["path"]]
    assert webhook["sideEffects"] == "None"
    for rule in webhook["rules"]:
        assert rule["resources"] == ["/".join(filter(None, (path.resource, path.sub_resource)))]
        if path.api_version:
            [group], [version] = rule["apiGroups"], rule["apiVersions"]
            assert f"{group}/{version}".removeprefix("/") == path.api_version


@pytest.mark.parametrize(
    ("name", "path", "operations", "policy", "namespaces", "objects"),
    [
        ("mpod-create", "/mutate-pod", ["CREATE"], "Ignore", USERS, None),
        ("mpod-update", "/mutate-pod", ["UPDATE"], "Ignore", USERS, MARKED),
        ("mreservation-create", "/mutate-reservation", ["CREATE"], "Ignore", None, None),
        ("vpod", "/validate-pod", ["CREATE", "UPDATE"], "Ignore", USERS, None),
        ("vpodbinding", "/validate-pod-binding", ["CREATE"], "Ignore", None, None),
    ],
)
def test_entries_are_koordinators(
    name: str, path: str, operations: list[str], policy: str, namespaces: Any, objects: Any
) -> None:
    webhook = WEBHOOKS[f"{name}.koordinator.sh"]
    assert webhook["clientConfig"]["service"] == {
        "namespace": "koordinator-system",
        "name": "koordinator-webhook-service",
        "path": path,
        "port": 443,
    }
    [rule] = webhook["rules"]
    assert rule["operations"] == operations
    assert webhook["failurePolicy"] == policy
    assert webhook["admissionReviewVersions"] == ["v1", "v1beta1"]
    assert (webhook.get("namespaceSelector"), webhook.get("objectSelector")) == (namespaces, objects)
