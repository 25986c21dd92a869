"""The judge of roles, which tests of the manifests rely on."""

import pytest

from tests.manifests.rights import Grant, Request, grants_of, refused, request_of, unused


@pytest.mark.parametrize(
    ("method", "target", "expected"),
    [
        ("GET", "/api/v1/pods?limit=500", Request("list", "", "pods")),
        ("GET", "/api/v1/pods?watch=1&resourceVersion=5", Request("watch", "", "pods")),
        ("GET", "/api/v1/namespaces", Request("list", "", "namespaces")),
        ("GET", "/api/v1/namespaces/a", Request("get", "", "namespaces", "", "a")),
        ("GET", "/api/v1/namespaces/a/pods/p", Request("get", "", "pods", "a", "p")),
        ("POST", "/api/v1/namespaces/a/pods/p/binding", Request("create", "", "pods/binding", "a", "p")),
        (
            "PATCH",
            "/apis/slo.koordinator.sh/v1alpha1/nodemetrics/n/status",
            Request("patch", "slo.koordinator.sh", "nodemetrics/status", "", "n"),
        ),
        (
            "GET",
            "/api/v1/namespaces/s/secrets?fieldSelector=metadata.name%3Dc&watch=true",
            Request("watch", "", "secrets", "s", "c"),
        ),
        (
            "PUT",
            "/apis/coordination.k8s.io/v1/namespaces/s/leases/l",
            Request("update", "coordination.k8s.io", "leases", "s", "l"),
        ),
        ("GET", "/readyz", None),
    ],
)
def test_a_request_is_read_as_an_api_server_reads_it(
    method: str, target: str, expected: Request | None
) -> None:
    assert request_of(method, target) == expected


ROLE = {
    "kind": "Role",
    "metadata": {"name": "r", "namespace": "s"},
    "rules": [
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["c"], "verbs": ["get", "update"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
    ],
}
BINDING = {
    "kind": "RoleBinding",
    "metadata": {"name": "b", "namespace": "s"},
    "roleRef": {"kind": "Role", "name": "r"},
    "subjects": [{"kind": "ServiceAccount", "name": "me", "namespace": "s"}],
}
GRANTS = grants_of("me", [ROLE, BINDING])


def test_a_rule_is_taken_apart() -> None:
    assert sorted(GRANTS) == [
        Grant("r", "create", "", "secrets", "s"),
        Grant("r", "get", "", "secrets", "s", "c"),
        Grant("r", "update", "", "secrets", "s", "c"),
    ]


def test_a_role_that_is_bound_to_another_subject_grants_nothing() -> None:
    assert grants_of("you", [ROLE, BINDING]) == []


@pytest.mark.parametrize(
    "request_",
    [
        Request("get", "", "secrets", "s", "other"),
        Request("get", "", "secrets", "elsewhere", "c"),
        Request("delete", "", "secrets", "s", "c"),
        Request("list", "", "secrets", "s"),
        Request("get", "", "secrets/status", "s", "c"),
        Request("get", "apps", "secrets", "s", "c"),
    ],
)
def test_what_no_grant_covers_is_refused(request_: Request) -> None:
    assert refused(GRANTS, [request_]) == [request_]


def test_what_no_request_needs_is_unused() -> None:
    requests = [Request("get", "", "secrets", "s", "c"), Request("create", "", "secrets", "s")]
    assert refused(GRANTS, requests) == []
    assert [str(grant) for grant in unused(GRANTS, requests)] == ["r: update secrets c in s"]
