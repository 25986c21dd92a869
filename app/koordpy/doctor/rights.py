"""Whether koordpy has the rights that the enabled features need."""

from collections.abc import AsyncIterator
from typing import Any

from koordpy.api.meta import KubeObject
from koordpy.api.needs import Right
from koordpy.api.scheme import Resource

from .finding import Area, Finding
from .installation import Installation

AREA = Area("rights")

GROUP = "authorization.k8s.io"
OWN_ACCESS = Resource(GROUP, "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", False, KubeObject)
ACCESS = Resource(GROUP, "v1", "subjectaccessreviews", "SubjectAccessReview", False, KubeObject)

_ACCOUNT = "system:serviceaccount:"


async def check(installation: Installation) -> AsyncIterator[Finding]:
    """Review every needed right with the API server."""
    given = 0
    for right, needed in installation.rights():
        if await _is_allowed(installation, right):
            given += 1
            continue
        who = installation.user or "the user of these credentials"
        yield AREA.problem(
            str(right),
            f"{who} may not do this; needed by {', '.join(needed)}",
            "apply deploy/kustomize (base/*/rbac.yaml, components for gates) or the chart's roles; for "
            "another "
            "configuration, bind a role with this rule",
        )
    if given:
        whose = f"of {installation.user}" if installation.user else "of these credentials"
        yield AREA.ok("rights", f"all {given} needed rights {whose} are granted")
    if not installation.user:
        yield AREA.note(
            "user",
            "these are the rights of the credentials that the doctor uses, not necessarily koordpy's",
            "--as system:serviceaccount:koordinator-system:koordpy-scheduler (koordpy-webhooks, "
            "koordpy-worker, "
            "koordpy-qos-agent)",
        )


async def _is_allowed(installation: Installation, right: Right) -> bool:
    resource, _, subresource = right.resource.partition("/")
    attributes = {
        "verb": right.verb,
        "group": right.group,
        "resource": resource,
        "subresource": subresource,
        "namespace": right.namespace,
        "name": right.name,
    }
    spec: dict[str, Any] = {"resourceAttributes": {key: value for key, value in attributes.items() if value}}
    kind = OWN_ACCESS
    if installation.user:
        kind = ACCESS
        spec |= {"user": installation.user, "groups": groups(installation.user)}
    review = {"apiVersion": kind.api_version, "kind": kind.kind, "spec": spec}
    answer = await installation.client.create_raw(kind, "", review)
    return bool((answer.get("status") or {}).get("allowed"))


def groups(user: str) -> list[str]:
    """Return the groups that the API server derives from a user's name."""
    if not user.startswith(_ACCOUNT):
        return ["system:authenticated"]
    namespace = user.removeprefix(_ACCOUNT).partition(":")[0]
    return ["system:authenticated", "system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
