"""The attributes of a write: the request as admission and storage see it."""

from dataclasses import dataclass, field
from typing import Any

from koordpy.api.field_cause import unsupported

from .catalog import Served
from .errors import bad_request, invalid
from .wire import Request

Document = dict[str, Any]

ADMINISTRATOR = {"username": "admin", "uid": "admin", "groups": ["system:masters", "system:authenticated"]}
"""The user of every request whose token is not known: the server has no authentication."""


@dataclass(slots=True)
class Attributes:
    """One write. `operation` is CREATE, UPDATE, DELETE or CONNECT; `warnings` go out as headers."""

    operation: str
    served: Served
    namespace: str
    name: str
    subresource: str = ""
    dry_run: bool = False
    options: Document = field(default_factory=dict)
    manager: str = ""
    kind: tuple[str, str, str] | None = None
    """Group, version and kind of the object, if they are not those of the resource."""
    warnings: list[str] = field(default_factory=list)

    @property
    def object_kind(self) -> tuple[str, str, str]:
        """Group, version and kind of the object that is written."""
        return self.kind or (self.served.group, self.served.version, self.served.kind)


def is_dry_run(request: Request, body: Document | None = None) -> bool:
    """Read `dryRun` of a query or of delete options; raise ApiError (422) for anything but All."""
    given = request.query.get("dryRun", "")
    values = [given] if given else list((body or {}).get("dryRun") or ())
    for value in values:
        if value != "All":
            raise invalid("CreateOptions", "meta.k8s.io", "", [unsupported("dryRun", value, ("All",))])
    return bool(values)


def attributes(
    request: Request, operation: str, served: Served, namespace: str, name: str, subresource: str = ""
) -> Attributes:
    """Return the attributes of a write; raise ApiError for invalid options."""
    manager = request.query.get("fieldManager", "")
    if len(manager) > 128:
        raise bad_request("fieldManager: Too long: may not be more than 128 bytes")
    agent = request.header(b"user-agent").partition("/")[0][:128]
    kind = {"CREATE": "CreateOptions", "DELETE": "DeleteOptions"}.get(operation, "UpdateOptions")
    if request.method == "PATCH":
        kind = "PatchOptions"
    options: Document = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
    dry_run = is_dry_run(request)
    if dry_run:
        options["dryRun"] = ["All"]
    if manager:
        options["fieldManager"] = manager
    if validation := request.query.get("fieldValidation"):
        options["fieldValidation"] = validation
    manager = manager or agent or "unknown"
    found = Attributes(operation, served, namespace, name, subresource, dry_run, options, manager)
    if served.deprecation:
        found.warnings.append(served.deprecation)
    return found
