"""The names of certificate files in a folder, and whether they can be trusted.

Apart from `certificates`, so that processes that only serve with a certificate do without the library that
creates them: 9 MB.
"""

from pathlib import Path

from koordpy.lib import trusted_path

CA_CERT, CA_KEY, SERVER_CERT, SERVER_KEY = "ca-cert.pem", "ca-key.pem", "tls.crt", "tls.key"
CLIENT_CERT, CLIENT_KEY = "client.crt", "client.key"


class CertificateError(Exception):
    """A certificate or key is absent, unreadable or does not match; the message names the file or host."""


def require_trusted(*paths: Path) -> None:
    """Raise CertificateError for the first folder or file that another user controls."""
    for path in paths:
        try:
            problem = trusted_path.problem(path)
        except OSError as error:
            raise CertificateError(f"{path}: the owner cannot be examined: {error}") from None
        if problem:
            raise CertificateError(
                f"{problem}. Another user may have put a certificate there: remove it, correct owner and "
                "mode (chown, chmod go-w) if you trust what it holds, or set certDir to another folder"
            )
