"""How the extender authenticates its callers.

A caller of the extender binds pods with koordpy's rights. Callers in the same network namespace may be
trusted: the containers of a pod, and the users of a machine of one's own. Everywhere else they must present a
client certificate, the only credentials that kube-scheduler has for extenders.
"""

from pathlib import Path
from typing import Final

from koordpy.compose.part import Certificate, PartError
from koordpy.http.server.client_certificates import ClientCertificates
from koordpy.lib import certificates
from koordpy.lib.request_origin import is_loopback
from koordpy.settings import ExtenderSettings

CLIENT_NAME: Final = "kube-scheduler"
"""The common name of the client certificate that is created for kube-scheduler."""

_ANY_ADDRESS: Final = ("0.0.0.0", "::", "")


def certificate_of(settings: ExtenderSettings) -> Certificate | None:
    """Return how the extender speaks TLS and authenticates callers, None for plain HTTP.

    Raises PartError for settings with which callers on other machines would not be authenticated.
    """
    reaches_out = not is_loopback(settings.bind_address)
    if settings.cert_dir is None:
        if settings.client_ca_file is not None or settings.client_names:
            raise PartError(
                "extender.clientCAFile, extender.clientNames: client certificates need TLS; set "
                "extender.certDir too, the folder of the extender's own certificate"
            )
        if reaches_out:
            raise PartError(
                f"extender.bindAddress: {settings.bind_address} is not loopback, and callers are not "
                "authenticated, so any of them could bind pods; set extender.certDir, a folder in which "
                "koordpy creates its certificate and kube-scheduler's client certificate "
                "(docs/extender.md#client-certificates), or bind to 127.0.0.1"
            )
        return None
    folder = Path(settings.cert_dir)
    given = certificates.is_given(folder)
    authorities = settings.client_ca_file
    if authorities is None and not given:
        authorities = str(folder / certificates.CA_CERT)
    if authorities is None and reaches_out:
        raise PartError(
            f"extender.bindAddress: {settings.bind_address} is not loopback, and callers are not "
            f"authenticated: koordpy did not create the certificate in {folder}, so it creates no client "
            "certificates; set extender.clientCAFile to the authority of kube-scheduler's client certificate"
        )
    if authorities is None and settings.client_names:
        raise PartError(
            "extender.clientNames: set extender.clientCAFile, the authority of client certificates"
        )
    return Certificate(
        folder=folder,
        hosts=_tls_hosts(settings),
        client=CLIENT_NAME if settings.client_ca_file is None else None,
        clients=None if authorities is None else ClientCertificates(Path(authorities), settings.client_names),
    )


def _tls_hosts(settings: ExtenderSettings) -> tuple[str, ...]:
    """Return the names in a generated certificate; an address to which the extender binds is one of them."""
    address = settings.bind_address
    named = address in (*_ANY_ADDRESS, *settings.tls_hosts)
    return settings.tls_hosts if named else (*settings.tls_hosts, address)
