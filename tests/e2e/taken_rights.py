"""Rights that a test takes from a service account of an installation for a while."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

from tests.e2e.installation import NAMESPACE, Document, Installation
from tests.eventually import eventually


@contextmanager
def without(
    installation: Installation, account: str, verb: str, *resources: str, roles: tuple[str, ...] = ()
) -> Iterator[None]:
    """Take a verb on resources from the roles of a service account; give it back at the end.

    `roles` are the first words of the roles' names; by default they are called like the account. Rights that
    were taken before stay taken.
    """
    changed = []
    for document in installation.documents:
        kind, meta = document["kind"], document["metadata"]
        if kind not in ("Role", "ClusterRole") or not meta["name"].startswith(roles or account):
            continue
        where = ("-n", meta["namespace"]) if "namespace" in meta else ()
        present = installation.get(kind, meta["name"], *where)["rules"]
        rules = present
        for resource in resources:
            rules = [left for rule in rules for left in _reduced(rule, verb, resource)]
        if rules != present:
            changed.append(({**document, "rules": present}, {**document, "rules": rules}))
    assert changed
    _replace(installation, [reduced for _, reduced in changed])
    try:
        assert eventually(
            lambda: not any(_may(installation, account, verb, resource) for resource in resources)
        )
        yield
    finally:
        _replace(installation, [role for role, _ in changed])


def _may(installation: Installation, account: str, verb: str, resource: str) -> bool:
    """Return whether an account may do something in a namespace or in the cluster."""
    resource, _, subresource = resource.partition("/")
    user = f"--as=system:serviceaccount:{NAMESPACE}:{account}"
    what = [verb, resource, *([f"--subresource={subresource}"] if subresource else [])]
    return installation.plane.kubectl("auth", "can-i", *what, user, check=False).returncode == 0


def _reduced(rule: Document, verb: str, resource: str) -> Iterator[Document]:
    if resource not in rule["resources"] or verb not in rule["verbs"]:
        yield rule
        return
    others = [other for other in rule["resources"] if other != resource]
    verbs = [other for other in rule["verbs"] if other != verb]
    if others:
        yield {**rule, "resources": others}
    if verbs:
        yield {**rule, "resources": [resource], "verbs": verbs}


def _replace(installation: Installation, roles: list[Document]) -> None:
    for role in roles:
        installation.plane.kubectl("apply", "-f", "-", stdin=json.dumps(role))
