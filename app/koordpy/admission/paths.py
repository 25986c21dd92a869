"""The webhook paths that Koordinator has, and what each does before its handlers are called.

Source: Koordinator, `pkg/webhook` (`add_*.go` and each path's handler).
"""

from dataclasses import dataclass

from .handler import CREATE


@dataclass(frozen=True)
class WebhookPath:
    """What a path is for.

    A request for another resource or for a subresource is allowed unseen, where `resource` is set. The object
    must read as `kind` of `api_version`, where they are set. Handlers run on `operations` (empty: on all);
    other operations are allowed once the object was read. `type` and `object_type` are metric labels.
    """

    path: str
    type: str = ""
    object_type: str = ""
    gate: str | None = None
    resource: str = ""
    api_version: str = ""
    kind: str = ""
    operations: frozenset[str] = frozenset()


PATHS: dict[str, WebhookPath] = {
    path.path: path
    for path in (
        WebhookPath(
            path="/mutate-pod",
            type="mutate",
            object_type="pod",
            gate="PodMutatingWebhook",
            resource="pods",
            api_version="v1",
            kind="Pod",
            operations=frozenset((CREATE,)),
        ),
    )
}


def webhook_path(path: str) -> WebhookPath:
    """Return what a path is for; one that Koordinator does not have takes every request."""
    return PATHS.get(path) or WebhookPath(path)
