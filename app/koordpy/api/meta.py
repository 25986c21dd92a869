"""Common parts of Kubernetes objects: metadata, owners, selectors, conditions, times.

API structs declare only the fields that some code reads: other fields are skipped while decoding and never
enter memory. Quantities keep their wire form (`koordpy.api.quantity` parses them), times stay RFC 3339 text
(`parse_time` parses them). Structs are shared by every reader of a store and must not be changed;
`msgspec.structs.replace` makes a changed copy.
"""

from datetime import UTC, datetime
from typing import Any

import msgspec

from koordpy.lib.bounded_cache import cached, text_size
from koordpy.lib.go_time import parse_rfc_3339

ResourceList = dict[str, str | int | float]
"""Resource name to quantity, as on the wire."""


class Struct(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, gc=False):
    """Base of the API structs: camelCase on the wire, absent fields are omitted when encoded."""


class OwnerReference(Struct):
    """The owner of an object."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool = False


class ObjectMeta(Struct):
    """The metadata that is read; managedFields and the like are never decoded."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: list[OwnerReference] = []
    finalizers: list[str] = []

    @property
    def key(self) -> str:
        """`namespace/name`, or the bare name of a cluster-scoped object."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that manages the object, if it has one."""
        for owner in self.owner_references:
            if owner.controller:
                return owner
        return None


class KubeObject(Struct):
    """An object with metadata. `api_version` and `kind` are absent inside lists and watches."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)


class LabelSelectorRequirement(Struct):
    """One expression of a label selector."""

    key: str = ""
    operator: str = ""
    values: list[str] = []


class LabelSelector(Struct):
    """A label selector as written in an object; `koordpy.api.label_selector` matches it."""

    match_labels: dict[str, str] = {}
    match_expressions: list[LabelSelectorRequirement] = []


class Condition(Struct):
    """A condition of a status."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    last_probe_time: str | None = None


class ListMeta(Struct):
    """Metadata of a list: the continue token, and the version to watch from."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")
    remaining_item_count: int | None = None


class Status(Struct):
    """An API server's answer that is not an object, such as an error."""

    kind: str = "Status"
    api_version: str = "v1"
    status: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: Any = None


@cached("times", 4 << 20, text_size)
def parse_time(text: str) -> datetime:
    """Parse an RFC 3339 time; raise ValueError naming the text if it is invalid."""
    return parse_rfc_3339(text)


def format_time(moment: datetime) -> str:
    """Write a time as `metav1.Time` does: UTC, whole seconds, `Z`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_micro_time(moment: datetime) -> str:
    """Write a time as `metav1.MicroTime` does: UTC, microseconds, `Z`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
