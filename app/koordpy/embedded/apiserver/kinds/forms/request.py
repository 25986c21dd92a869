"""The forms of request bodies that are not stored."""

from typing import Any

from .form import Form


class _Preconditions(Form):
    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(Form):
    """The options of a deletion."""

    kind: str | None = None
    api_version: str | None = None
    grace_period_seconds: int | None = None
    preconditions: _Preconditions | None = None
    orphan_dependents: bool | None = None
    propagation_policy: str | None = None
    dry_run: list[str] | None = None


class Eviction(Form):
    """An Eviction."""

    delete_options: DeleteOptions | None = None


class _ReviewSpec(Form):
    token: str | None = None
    audiences: list[str] | None = None
    resource_attributes: dict[str, Any] | None = None
    non_resource_attributes: dict[str, Any] | None = None
    user: str | None = None
    groups: list[str] | None = None
    namespace: str | None = None


class Review(Form):
    """A TokenReview or a SubjectAccessReview."""

    metadata: dict[str, Any] | None = None
    spec: _ReviewSpec | None = None


class _TokenRequestSpec(Form):
    audiences: list[str] | None = None
    expiration_seconds: int | None = None


class TokenRequest(Form):
    """A TokenRequest."""

    spec: _TokenRequestSpec | None = None
