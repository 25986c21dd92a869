"""Configuration of the webhook server's certificate and of its registration in the cluster.

Names and defaults are those of Koordinator's environment variables: `pkg/webhook/util/util.go`.
"""

from enum import StrEnum
from typing import Final

from pydantic import Field

from koordpy.api.config_model import ConfigModel, Seconds

TRUSTED_BY: Final = "localhost"
"""A name in every generated certificate, besides the name that kube-apiserver calls."""


class Mode(StrEnum):
    """What creates the certificate."""

    LOCAL = "local"
    """koordpy, for development: in the folder, if that holds none."""
    FS = "fs"
    """koordpy, in the folder, renewed while it runs. For one replica, because each has its own authority."""
    SECRET = "secret"
    """koordpy, in a Secret that all replicas share."""
    GIVEN = "given"
    """Another program (cert-manager, an operator) writes `tls.crt`, `tls.key`, `ca.crt` to the folder."""


class CertificateSettings(ConfigModel):
    """The certificate. `host` replaces the service's name where the API server calls by URL."""

    mode: Mode = Field(default=Mode.LOCAL, strict=False)
    namespace: str = Field(default="koordinator-system", min_length=1)
    """Of the Secret and the service."""
    secret_name: str = Field(default="koordinator-webhook-certs", min_length=1)
    service_name: str = Field(default="koordinator-webhook-service", min_length=1)
    host: str = ""
    propagation: Seconds = 5.0
    """How long API servers have to learn of a new authority before its certificate is served."""

    @property
    def dns(self) -> str:
        """The host name that kube-apiserver calls."""
        return self.host or f"{self.service_name}.{self.namespace}.svc"

    @property
    def generates(self) -> bool:
        """Whether the certificate is generated and renewed while the process runs."""
        return self.mode in (Mode.FS, Mode.SECRET)


class RegistrationSettings(ConfigModel):
    """The two webhook configurations that are completed: caBundle, address, and which webhooks are on."""

    enabled: bool | None = None
    """Default: true where koordpy generates the certificate."""
    mutating: str = Field(default="koordinator-mutating-webhook-configuration", min_length=1)
    validating: str = Field(default="koordinator-validating-webhook-configuration", min_length=1)
    inject_ca_bundle: bool = True
    """False leaves caBundle to another component, such as cert-manager's injector."""
    port: int | None = Field(default=None, ge=1, le=65535)
    """The port in URLs (default: the listener's)."""
