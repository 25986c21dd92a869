"""Object metadata: fields set by the server, fields set by clients, and valid names.

Source of the rules: Kubernetes, `k8s.io/apimachinery/pkg/api/validation` (ObjectMeta) and
`k8s.io/apiserver/pkg/registry/rest` (create, update).
"""

import random
import uuid
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import msgspec

from koordpy.api import labels as label_syntax
from koordpy.api.field_cause import Cause, forbidden_field, invalid_value, required, too_long
from koordpy.api.meta import format_time
from koordpy.api.object_names import (
    dns_label as dns_label,
)
from koordpy.api.object_names import (
    dns_subdomain as dns_subdomain,
)
from koordpy.api.object_names import validate_labels as validate_labels

from .errors import ApiError, bad_request

Document = dict[str, Any]

_SUFFIX_CHARACTERS = "bcdfghjklmnpqrstvwxz2456789"
_MAX_ANNOTATIONS = 256 * 1024

NameRule = Callable[[str], str | None]
"""Returns the errors in a name."""


class _Owner(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class _Metadata(msgspec.Struct, rename="camel"):
    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    self_link: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    generation: int | None = None
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str | None] | None = None
    annotations: dict[str, str | None] | None = None
    owner_references: list[_Owner] | None = None
    finalizers: list[str] | None = None
    managed_fields: list[dict[str, Any]] | None = None


_KNOWN = frozenset(_Metadata.__struct_encode_fields__)


def path_segment(name: str) -> str | None:
    """The rule for names that need only fit a URL, such as those of RBAC objects."""
    if name in (".", ".."):
        return f"may not be '{name}'"
    return next((f"may not contain '{part}'" for part in ("/", "%") if part in name), None)


def tidy(kind: str, api_version: str, metadata: Any, unknown: list[str]) -> Document:
    """Return metadata of known fields of the right types, without nulls; raise ApiError (400) otherwise."""
    if metadata is None:
        return {}
    try:
        msgspec.convert(metadata, _Metadata)
    except msgspec.ValidationError as error:
        where = str(error).replace("`$", "`metadata").replace("$.", "metadata.")
        raise bad_request(
            f'{kind} in version "{api_version}" cannot be handled as a {kind}: {where}'
        ) from None
    result: Document = {}
    for name, value in metadata.items():
        if name not in _KNOWN:
            unknown.append(f"metadata.{name}")
        elif value is None or value == "" or value == [] or value == {}:
            continue
        elif name in ("labels", "annotations"):
            result[name] = {key: "" if item is None else item for key, item in value.items()}
        else:
            result[name] = value
    return result


def wipe_system_fields(metadata: Document) -> None:
    """Remove fields that only the server sets on a new object."""
    for name in (
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
        "generation",
    ):
        metadata.pop(name, None)


def generated_name(prefix: str, rng: random.Random) -> str:
    """Append five random characters to a truncated prefix."""
    return prefix[: 63 - 5] + "".join(rng.choice(_SUFFIX_CHARACTERS) for _ in range(5))


def fill_system_fields(metadata: Document, now: datetime, rng: random.Random) -> None:
    """Set name (if generated), uid and creation time of a new object."""
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = generated_name(metadata["generateName"], rng)
    metadata["uid"] = str(uuid.UUID(int=rng.getrandbits(128), version=4))
    metadata["creationTimestamp"] = format_time(now)


def validate(metadata: Document, rule: NameRule, namespaced: bool) -> list[Cause]:
    """Return the errors in the metadata of an object that is to be stored."""
    causes: list[Cause] = []
    name, prefix = metadata.get("name", ""), metadata.get("generateName", "")
    if prefix and (problem := rule(_masked(prefix))):
        causes.append(invalid_value("metadata.generateName", prefix, problem))
    if not name:
        causes.append(required("metadata.name", "name or generateName is required"))
    elif problem := rule(name):
        causes.append(invalid_value("metadata.name", name, problem))
    if not namespaced and metadata.get("namespace"):
        causes.append(forbidden_field("metadata.namespace", "not allowed on this type"))
    causes.extend(validate_labels(metadata.get("labels", {}), "metadata.labels"))
    causes.extend(_validate_annotations(metadata.get("annotations", {})))
    causes.extend(_validate_owners(metadata.get("ownerReferences", [])))
    for index, finalizer in enumerate(metadata.get("finalizers", [])):
        if problem := label_syntax.key_error(finalizer):
            causes.append(invalid_value(f"metadata.finalizers[{index}]", finalizer, problem))
    return causes


def _masked(prefix: str) -> str:
    return f"{prefix[:-1]}a" if prefix.endswith("-") and len(prefix) > 1 else prefix


def _validate_annotations(annotations: Document) -> Iterator[Cause]:
    size = 0
    for key, value in annotations.items():
        size += len(key) + len(value)
        if problem := label_syntax.key_error(key.lower()):
            yield invalid_value("metadata.annotations", key, problem)
    if size > _MAX_ANNOTATIONS:
        yield too_long("metadata.annotations", _MAX_ANNOTATIONS)


def _validate_owners(owners: list[Document]) -> Iterator[Cause]:
    controllers = [owner for owner in owners if owner.get("controller")]
    path = "metadata.ownerReferences"
    for owner in owners:
        for field in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(field):
                yield invalid_value(f"{path}.{field}", owner.get(field, ""), f"{field} must not be empty")
    if len(controllers) > 1:
        told = f"Only one reference can have Controller set to true. Found {len(controllers)}"
        yield invalid_value("metadata.ownerReferences", owners, told)


def validate_update(new: Document, old: Document) -> Iterator[Cause]:
    """Yield forbidden changes."""
    for field in ("name", "namespace", "uid"):
        if new.get(field, "") != old.get(field, ""):
            yield invalid_value(f"metadata.{field}", new.get(field, ""), "field is immutable")
    if "deletionTimestamp" in old:
        added = [item for item in new.get("finalizers", []) if item not in old.get("finalizers", [])]
        if added:
            told = (
                f"no new finalizers can be added if the object is being deleted, found new finalizers {added}"
            )
            yield forbidden_field("metadata.finalizers", told)


def carry_over(new: Document, old: Document) -> None:
    """Copy from the stored metadata the fields that no update may change."""
    for name in ("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"):
        if name in old:
            new[name] = old[name]
        else:
            new.pop(name, None)
    new.setdefault("uid", old["uid"])
    new.pop("selfLink", None)


def match_namespace(metadata: Document, namespace: str) -> None:
    """Set the namespace of the URL; raise ApiError (400) if the object names another."""
    given = metadata.get("namespace", "")
    if not namespace and given:
        raise ApiError(400, "BadRequest", "namespace may not be set on a cluster-scoped object")
    if given and given != namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if namespace:
        metadata["namespace"] = namespace
