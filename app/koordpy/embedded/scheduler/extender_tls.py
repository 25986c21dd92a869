"""TLS to an extender, as kube-scheduler configures it from `enableHTTPS` and `tlsConfig`.

Data takes precedence over files. Where an authority is given, no other is trusted; with `enableHTTPS` and
none, the extender is not verified at all. Authorities are read once; a client certificate that is in files is
read again, at most once a second, so it can be replaced while the scheduler runs.

Source: Kubernetes, `pkg/scheduler/extender.go` (`makeTransport`) and
`staging/src/k8s.io/client-go/transport/transport.go` (`TLSConfigFor`, `cachingCertificateLoader`).
"""

import base64
import ssl
import tempfile
import time
from pathlib import Path
from typing import Final

from koordpy.api.config_model import ConfigError
from koordpy.scheduling.profiles.config import ExtenderTLSConfig

_RELOAD_SECONDS: Final = 1.0


class ExtenderTLS:
    """The TLS context of calls to one extender.

    Raises OSError for files that cannot be read, ConfigError for an authority together with `insecure`.
    """

    def __init__(self, given: ExtenderTLSConfig | None, enable_https: bool) -> None:
        self._given = given = given or ExtenderTLSConfig()
        authority = _text(given.ca_data, given.ca_file)
        is_verified = bool(authority) or not (enable_https or given.insecure)
        if authority and given.insecure:
            raise ConfigError(
                "tlsConfig: specifying a root certificates file with the insecure flag is not allowed"
            )
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        if authority:
            self.context.load_verify_locations(cadata=authority)
            self.context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        elif is_verified:
            self.context.load_default_certs()
        else:
            self.context.check_hostname = False
            self.context.verify_mode = ssl.CERT_NONE
        self._is_in_files = not given.cert_data and not given.key_data and bool(given.cert_file)
        self._read: tuple[bytes, bytes] | None = None
        self._read_at = 0.0
        self._load(_bytes(given.cert_data, given.cert_file), _bytes(given.key_data, given.key_file))

    def reload(self) -> None:
        """Read the files of the client certificate again, for new connections. Raises OSError."""
        now = time.monotonic()
        if self._is_in_files and now - self._read_at > _RELOAD_SECONDS:
            self._load(Path(self._given.cert_file).read_bytes(), Path(self._given.key_file).read_bytes())

    def _load(self, cert: bytes, key: bytes) -> None:
        self._read_at = time.monotonic()
        if not cert or not key or (cert, key) == self._read:
            return
        # The ssl module reads certificates only from files.
        with tempfile.NamedTemporaryFile() as cert_file, tempfile.NamedTemporaryFile() as key_file:
            cert_file.write(cert)
            key_file.write(key)
            cert_file.flush()
            key_file.flush()
            self.context.load_cert_chain(cert_file.name, key_file.name)
        self._read = (cert, key)


def _bytes(data: str, file: str) -> bytes:
    if data:
        return base64.b64decode(data)
    return Path(file).read_bytes() if file else b""


def _text(data: str, file: str) -> str:
    return _bytes(data, file).decode("ascii")
