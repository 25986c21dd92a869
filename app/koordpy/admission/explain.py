"""Return what admission would do to pods, and why; `koordpy profile explain` prints it.

Works offline: the cluster may be filled from YAML files. Nothing is written.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from koordpy.api.meta import KubeObject
from koordpy.api.output_model import OutputModel
from koordpy.api.scheme import RESOURCES, DecodeError, decode
from koordpy.cluster.cluster import Cluster

from .chain import Chain
from .explanation import Explanation
from .handler import CREATE, GroupVersionKind, GroupVersionResource, Request

T = TypeVar("T", bound=KubeObject)

_TYPES = {(resource.api_version, resource.kind): type_ for type_, resource in RESOURCES.items()}


class RuleOutcome(OutputModel):
    """A rule (for example a profile), whether it applied to the object, and why."""

    handler: str
    subject: str
    applied: bool
    reason: str


class ExplainedChange(OutputModel):
    """One change. `path` is a JSON pointer; `before` and `after` are null where the value is absent."""

    handler: str
    cause: str
    op: str
    path: str
    before: Any = None
    after: Any = None


class AdmissionExplanation(OutputModel):
    """The admission of one object: verdict, rules, changes in order, the patch, and the result."""

    kind: str
    namespace: str
    name: str
    allowed: bool
    code: int
    message: str
    rules: list[RuleOutcome]
    changes: list[ExplainedChange]
    patch: list[dict[str, Any]]
    result: dict[str, Any] | None


def explain(
    chain: Chain,
    document: dict[str, Any],
    *,
    namespace: str = "default",
    operation: str = CREATE,
    old: dict[str, Any] | None = None,
) -> AdmissionExplanation:
    """Run one object through a chain and explain the outcome.

    `namespace` is where the object would be created if it names none; `old` is the object before an UPDATE.
    If the object is refused, `changes` has the changes made before the refusal, which would not be sent.
    """
    notes = Explanation()
    metadata = document.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    api_version = document.get("apiVersion")
    group, _, version = str(api_version or "v1").rpartition("/")
    request = Request(
        uid="explain",
        operation=operation,
        namespace=str(metadata.get("namespace") or namespace),
        name=str(metadata.get("name") or metadata.get("generateName") or ""),
        kind=GroupVersionKind(group=group, version=version, kind=str(document.get("kind") or "")),
        resource=GroupVersionResource(group=group, version=version, resource=chain.path.resource),
        dry_run=True,
        raw_old_object=b"" if old is None else msgspec.json.encode(old),
        explanation=notes,
    )
    response = chain.rehearse(request, msgspec.json.encode(document))
    return AdmissionExplanation(
        kind=request.kind.kind,
        namespace=request.namespace,
        name=request.name,
        allowed=response.allowed,
        code=response.code,
        message=response.message,
        rules=[
            RuleOutcome(handler=item.handler, subject=item.subject, applied=item.applied, reason=item.reason)
            for item in notes.judgements
        ],
        changes=[
            ExplainedChange(
                handler=item.handler,
                cause=item.cause,
                op=item.op,
                path=item.path,
                before=item.before,
                after=item.after,
            )
            for item in notes.changes
        ],
        patch=msgspec.json.decode(response.patch) if response.patch else [],
        result=request.document.raw if response.allowed and request.document is not None else None,
    )


def feed(cluster: Cluster, documents: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Put objects (profiles, namespaces, priority classes ...) into a cluster; return the others.

    Pods are among the others, because they are explained. The items of a List are separate objects. Raises
    DecodeError.
    """
    left: list[dict[str, Any]] = []
    for document in documents:
        kind = str(document.get("kind", ""))
        if kind.endswith("List") and isinstance(document.get("items"), list):
            left.extend(feed(cluster, document["items"]))
            continue
        type_ = _TYPES.get((str(document.get("apiVersion", "")), kind))
        if type_ is None or kind == "Pod":
            left.append(dict(document))
        else:
            cluster.store(type_).apply(read(type_, document))
    return left


def read(type_: type[T], document: Mapping[str, Any]) -> T:
    """Decode a user's object. Raises DecodeError, with the object's name in the message."""
    try:
        return decode(type_, dict(document))
    except DecodeError as error:
        metadata = document.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        message = str(error).removeprefix(f"{type_.__name__}: ")
        raise DecodeError(f"{type_.__name__} {name or '(no name)'}: {message}") from None
