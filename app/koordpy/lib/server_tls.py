"""TLS contexts of servers, from the certificates in a folder."""

import ssl
from pathlib import Path

from . import certificate_files


def server_context(directory: Path | None = None) -> ssl.SSLContext:
    """Return a TLS 1.2+ server context with a folder's certificate, or without one yet."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if directory is not None:
        load_server_certificate(context, directory)
    return context


def load_server_certificate(context: ssl.SSLContext, directory: Path) -> None:
    """(Re)load a folder's certificate into a context: handshakes from now on use it.

    Raises CertificateError for files that do not load or that another user controls.
    """
    cert, key = directory / certificate_files.SERVER_CERT, directory / certificate_files.SERVER_KEY
    certificate_files.require_trusted(cert, key)
    try:
        context.load_cert_chain(cert, key)
    except (OSError, ssl.SSLError) as error:
        raise certificate_files.CertificateError(f"cannot load {cert} with {key}: {error}") from None


def require_client_certificates(context: ssl.SSLContext, authorities: Path) -> None:
    """Make a server context accept only callers with a certificate of these authorities (PEM).

    Raises CertificateError for a file that does not load or that another user controls.
    """
    certificate_files.require_trusted(authorities)
    try:
        context.load_verify_locations(cafile=authorities)
    except (OSError, ssl.SSLError) as error:
        raise certificate_files.CertificateError(
            f"cannot load the authorities of clients from {authorities}: {error}"
        ) from None
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
