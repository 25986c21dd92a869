"""The form of CertificateSigningRequests."""

from .form import Form


class _Condition(Form):
    type: str | None = None
    status: str | None = None


class _Spec(Form):
    request: str | None = None
    signer_name: str | None = None
    expiration_seconds: int | None = None
    usages: list[str] | None = None


class _Status(Form):
    conditions: list[_Condition] | None = None
    certificate: str | None = None


class SigningRequest(Form):
    """A CertificateSigningRequest."""

    spec: _Spec | None = None
    status: _Status | None = None
