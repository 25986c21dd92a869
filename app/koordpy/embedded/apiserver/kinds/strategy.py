"""The rules of a kind: how documents are read, defaulted, prepared, validated and presented.

`Strategy` applies to every kind; a kind with special rules has a subclass in its own file. Documents are
plain JSON objects without `kind` and `apiVersion`.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from koordpy.api import scheme
from koordpy.api.field_cause import Cause

from .. import metadata as meta
from ..errors import bad_request
from . import columns, forms, shapes

if TYPE_CHECKING:
    from ..catalog import Served
    from ..storage import Table

Document = dict[str, Any]

_TYPES = {(r.group, r.kind): r.type for r in scheme.RESOURCES.values()}


class Strategy:
    """The rules common to all kinds."""

    name_rule: meta.NameRule = staticmethod(meta.dns_subdomain)
    selectable: tuple[str, ...] = ()
    """Fields besides metadata.name and metadata.namespace that field selectors may use."""
    unconditional_update = True
    """Whether an update may leave out the resource version."""
    has_status = False
    """Whether status is written through the status subresource only."""
    counts_generation = False
    """Whether metadata.generation counts the changes of everything but metadata and status."""
    returns_deleted = False
    """Whether a deletion answers with the object instead of a Status."""

    def read(self, served: "Served", document: Document, unknown: list[str]) -> Document:
        """Convert a client's document (in the served version) into its stored form, with defaults.

        Unknown fields are dropped and their paths added to `unknown`. Raises ApiError (400).
        """
        document = self.prune(served, document, unknown)
        self.check_types(served, document)
        self.default(document)
        return document

    def check_types(self, served: "Served", document: Document) -> None:
        """Raise ApiError (400) if a field has another JSON type than the kind's."""
        for type_ in (_TYPES.get((served.group, served.kind)), forms.BY_KIND.get(served.kind)):
            if type_ is None:
                continue
            try:
                msgspec.convert(document, type_)
            except msgspec.ValidationError as error:
                told = f'{served.kind} in version "{served.version}" cannot be handled as a {served.kind}'
                raise bad_request(f"{told}: {error}") from None

    def prune(self, served: "Served", document: Document, unknown: list[str]) -> Document:
        """Drop only unknown fields and nulls. Raises ApiError (400)."""
        shape = shapes.shape_of(served.kind)
        metadata = document.pop("metadata", None)
        if shape is not None:
            document = shapes.tidy(document, shape, "", unknown)
        else:
            document = shapes.without_nulls(document)
        document["metadata"] = meta.tidy(served.kind, served.api_version, metadata, unknown)
        return document

    def default(self, document: Document) -> None:
        """Set the kind's defaults."""

    def fields(self, document: Document) -> Mapping[str, str]:
        """Return the values of the `selectable` fields."""
        return {}

    def present(self, served: "Served", raw: bytes) -> bytes:
        """Turn stored bytes into the whole object of the served version."""
        return served.prefix + raw[1:]

    def reveal(self, served: "Served", document: Document) -> Document:
        """Turn a stored document into one of the served version, for patches."""
        return document

    def present_items(self, served: "Served", raws: list[bytes]) -> list[bytes]:
        """Turn stored bytes into items of a list."""
        return raws

    def columns(self, served: "Served") -> tuple[columns.Column, ...]:
        """Return the columns of a table."""
        return columns.of(served.kind)

    def schema(self) -> Document | None:
        """Return the kind's own OpenAPI schema, if it has one."""
        return None

    def prepare_create(self, document: Document) -> None:
        """Set and remove fields that the creator does not control."""
        if self.has_status:
            document.pop("status", None)
        if self.counts_generation:
            document["metadata"]["generation"] = 1

    def allocate(self, document: Document, table: "Table") -> None:
        """Assign what is unique among all objects of the kind. Raises ApiError (422)."""

    def prepare_update(self, new: Document, old: Document) -> None:
        """Copy from the stored object the fields that an update does not control."""
        if self.has_status:
            _take_over(new, old, "status")
        if self.counts_generation and self._spec(new) != self._spec(old):
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1

    def _spec(self, document: Document) -> Document:
        """The part whose changes increase the generation."""
        left_out = ("metadata", "status") if self.has_status else ("metadata",)
        return {name: value for name, value in document.items() if name not in left_out}

    def prepare_status(self, new: Document, old: Document) -> Document:
        """Return the object that a write of the status subresource makes."""
        status = new.get("status")
        result = {**old, "metadata": new["metadata"]}
        result.pop("status", None)
        if status is not None:
            result["status"] = status
        return result

    def prepare_subresource(self, name: str, new: Document, old: Document) -> Document:
        """Return the object that a write of another subresource makes."""
        return new

    def validate(self, document: Document) -> Iterable[Cause]:
        """Return the errors in a document that is about to be stored."""
        return ()

    def validate_update(self, new: Document, old: Document) -> Iterable[Cause]:
        """Return the errors in a change, besides `validate`."""
        return ()

    def validate_status(self, new: Document, old: Document) -> Iterable[Cause]:
        """Return the errors in a status write."""
        return ()

    def grace_period(self, document: Document, asked: int | None) -> int:
        """Return the seconds for which a deleted object stays terminating; 0 to delete it immediately."""
        return 0

    def holds(self, document: Document) -> bool:
        """Whether something but metadata.finalizers keeps a deleted object."""
        return False

    def terminate(self, document: Document) -> None:
        """Mark an object that is being deleted but still kept."""


class WithStatus(Strategy):
    """A kind with a status subresource and a generation."""

    has_status = True
    counts_generation = True


def _take_over(new: Document, old: Document, name: str) -> None:
    if name in old:
        new[name] = old[name]
    else:
        new.pop(name, None)


def keep_times(conditions: Any, *names: str) -> None:
    """Set unknown times of conditions to null: these fields, and the last transition, always exist."""
    for condition in conditions or ():
        for name in (*names, "lastTransitionTime"):
            condition.setdefault(name, None)
