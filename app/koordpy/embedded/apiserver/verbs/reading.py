"""GET: one object, or a list of them, now or at an older revision, whole or in pages of one snapshot."""

import base64
import binascii
import re
from dataclasses import dataclass
from typing import Any

import msgspec

from koordpy.api.field_cause import Cause, forbidden_field, unsupported
from koordpy.lib.clock import Clock

from ..catalog import Served
from ..errors import ApiError, bad_request, expired, invalid, not_found
from ..representation import presentation
from ..storage import Record, Table, TooNew, TooOld, key_of
from ..wire import Request, Response
from .selection import Selection, selection_of

Document = dict[str, Any]


_NUMBER = re.compile("[0-9]{1,19}")


class _Token(msgspec.Struct):
    v: str
    rv: int
    start: str


@dataclass(frozen=True, slots=True)
class Position:
    """Where a list continues: after a key, in the state at a revision (None: now)."""

    after: str = ""
    revision: int | None = None
    is_page: bool = False


def token(revision: int, after: str) -> str:
    """Encode a continue token. Revision -1 means: continue in the current state."""
    raw = msgspec.json.encode(_Token("meta.k8s.io/v1", revision, f"{after}\0"))
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _read_token(text: str) -> _Token:
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        return msgspec.json.decode(raw, type=_Token)
    except (binascii.Error, ValueError, RecursionError, msgspec.MsgspecError):
        raise bad_request("continue key is not valid: expected a token from an earlier list") from None


def revision_of(text: str) -> int:
    """Read a resource version of a request; raise ApiError (400)."""
    if not _NUMBER.fullmatch(text):
        raise bad_request(f"resourceVersion: Invalid value: {text[:40]!r}: must be a whole number") from None
    return int(text)


def too_new(asked: int, current: int) -> ApiError:
    """The answer to a request for a revision that does not exist yet."""
    return ApiError(
        504,
        "Timeout",
        f"Too large resource version: {asked}, current: {current}",
        causes=[Cause("", "ResourceVersionTooLarge", "Too large resource version")],
        retry_after=1,
    )


def _list_options_error(cause: Cause) -> ApiError:
    return invalid("ListOptions", "meta.k8s.io", "", [cause])


def position_of(request: Request, table: Table) -> Position:
    """Read resourceVersion, resourceVersionMatch, limit and continue; raise ApiError."""
    query = request.query
    version, match = query.get("resourceVersion", ""), query.get("resourceVersionMatch", "")
    if match:
        if match not in ("Exact", "NotOlderThan"):
            raise _list_options_error(unsupported("resourceVersionMatch", match, ("Exact", "NotOlderThan")))
        if not version:
            raise _list_options_error(
                forbidden_field(
                    "resourceVersionMatch",
                    "resourceVersionMatch is forbidden unless resourceVersion is provided",
                )
            )
        if match == "Exact" and version == "0":
            told = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            raise _list_options_error(forbidden_field("resourceVersionMatch", told))
        if query.get("continue"):
            told = "resourceVersionMatch is forbidden when continue is provided"
            raise _list_options_error(forbidden_field("resourceVersionMatch", told))
    if text := query.get("continue"):
        if version not in ("", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        found = _read_token(text)
        return Position(found.start.rstrip("\0"), found.rv if found.rv > 0 else None, True)
    if not version:
        return Position()
    revision = revision_of(version)
    if revision > table.revision:
        raise too_new(revision, table.revision)
    exact = match == "Exact" or (not match and revision > 0 and limit_of(request) > 0)
    return Position(revision=revision if exact else None)


def limit_of(request: Request) -> int:
    """Read `limit`; 0 means none."""
    text = request.query.get("limit", "")
    if text and not _NUMBER.fullmatch(text.removeprefix("-")):
        raise bad_request(f"limit: Invalid value: {text[:40]!r}: must be a whole number")
    return max(int(text), 0) if text else 0


class Reader:
    """Answers GET requests."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def one(self, request: Request, served: Served, namespace: str, name: str) -> Response:
        """Answer with one object."""
        form = presentation.form_of(request)
        record = served.table.get(key_of(namespace, name))
        if record is None:
            raise not_found(served.plural, served.group, name)
        if version := request.query.get("resourceVersion"):
            asked = revision_of(version)
            if asked > served.table.revision:
                raise too_new(asked, served.table.revision)
        body = presentation.present(form, served, record.raw, self._clock.now())
        return presentation.respond(form, body, headers=presentation.warnings([served.deprecation]))

    def many(self, request: Request, served: Served, namespace: str) -> Response:
        """Answer with a list."""
        form = presentation.form_of(request)
        selection = selection_of(request, served, namespace)
        position = position_of(request, served.table)
        records, metadata = self.select(served, selection, position, limit_of(request))
        body = presentation.list_body(
            form, served, [record.raw for record in records], metadata, self._clock.now()
        )
        return presentation.respond(form, body, headers=presentation.warnings([served.deprecation]))

    def select(
        self, served: Served, selection: Selection, position: Position, limit: int = 0
    ) -> tuple[list[Record], Document]:
        """Return objects in order of their keys, and the list's metadata. Raises ApiError."""
        table = served.table
        try:
            keys, changed = table.range(selection.namespace, position.after, position.revision)
        except TooOld:
            raise self._expired(table, position) from None
        except TooNew:
            raise too_new(position.revision or 0, table.revision) from None
        revision = table.revision if position.revision is None else position.revision
        metadata: Document = {"resourceVersion": str(revision)}
        records: list[Record] = []
        matches, selects = selection.matches, selection.selects
        for index, key in enumerate(keys):
            record = table.lookup(key, changed)
            if record is None:
                continue
            if limit and len(records) == limit:
                metadata["continue"] = token(revision, records[-1].key if not selects else keys[index - 1])
                if not selects:
                    rest = keys[index:]
                    metadata["remainingItemCount"] = (
                        sum(table.lookup(key, changed) is not None for key in rest) if changed else len(rest)
                    )
                break
            if not selects or matches(record):
                records.append(record)
        return records, metadata

    @staticmethod
    def _expired(table: Table, position: Position) -> ApiError:
        if not position.is_page:
            return expired(f"The resourceVersion for the provided list is too old: {position.revision}")
        return expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a "
            "new list without the continue parameter, or use the continue token in this response to retrieve "
            "the remainder of the results. Continuing with the provided token results in an inconsistent "
            "list - objects that were created, modified, or deleted between the time the first chunk was "
            "returned and now may show up in the list.",
            token(-1, position.after),
        )
