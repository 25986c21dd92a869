"""Certificates for serving TLS: made here for development and the demo, reloaded when replaced.

File names are Koordinator's: `ca-cert.pem`, `ca-key.pem`, `tls.crt`, `tls.key`. A production cluster mounts
a folder with the same names (cert-manager writes `tls.crt`, `tls.key` and `ca.crt`).
"""

import ipaddress
import os
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = timedelta(days=3650)
RENEW_BEFORE = timedelta(days=183)
"""A certificate that ends sooner than this is replaced (Koordinator: six calendar months)."""

CA_CERT, CA_KEY, SERVER_CERT, SERVER_KEY = "ca-cert.pem", "ca-key.pem", "tls.crt", "tls.key"


class CertificateError(Exception):
    """A certificate or key file is absent, unreadable or does not fit; the message names the file."""


@dataclass(frozen=True)
class KeyPair:
    """A certificate and its private key, PEM. The key never shows in a repr."""

    cert: bytes
    key: bytes

    def __repr__(self) -> str:
        return f"KeyPair({x509.load_pem_x509_certificate(self.cert).subject.rfc4514_string()!r})"


def make_ca(name: str, now: datetime) -> KeyPair:
    """Make a self-signed certificate authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = (
        _builder(subject, subject, key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_usage(sign_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return KeyPair(pem(builder.sign(key, hashes.SHA256())), _key_pem(key))


def issue(ca: KeyPair, hosts: Sequence[str], now: datetime) -> KeyPair:
    """Make a server certificate for host names and IP addresses, signed by an authority."""
    authority = x509.load_pem_x509_certificate(ca.cert)
    signer = serialization.load_pem_private_key(ca.key, None)
    if not isinstance(signer, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
        raise CertificateError(f"the CA key is a {type(signer).__name__}; expected an EC or RSA key")
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0][:64])])
    builder = (
        _builder(subject, authority.subject, key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(sign_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([general_name(host) for host in hosts]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()),  # type: ignore[arg-type]
            critical=False,
        )
    )
    return KeyPair(pem(builder.sign(signer, hashes.SHA256())), _key_pem(key))


def serves(server: KeyPair, ca_cert: bytes, hosts: Sequence[str], at: datetime) -> bool:
    """Return whether a server pair fits, is signed by the CA, names all hosts and is valid at a time."""
    try:
        cert = x509.load_pem_x509_certificate(server.cert)
        key = serialization.load_pem_private_key(server.key, None)
        cert.verify_directly_issued_by(x509.load_pem_x509_certificate(ca_cert))
        names = cert.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except Exception:  # whatever is wrong with it, it does not serve
        return False
    same_key = cert.public_key() == key.public_key()
    in_time = cert.not_valid_before_utc <= at <= cert.not_valid_after_utc
    return same_key and in_time and all(general_name(host) in names for host in hosts)


def ensure(directory: Path, hosts: Sequence[str], now: datetime) -> bytes:
    """Make a folder hold a CA and a server certificate for these hosts; return the CA's PEM.

    What is there and stays valid for another half year is kept. The CA is kept as long as it can sign, so
    that clients who trust it need not be told again. A folder with a server certificate but no CA key
    belongs to somebody else (cert-manager, an operator): nothing in it is touched.
    """
    directory.mkdir(parents=True, exist_ok=True)
    paths = {name: directory / name for name in (CA_CERT, CA_KEY, SERVER_CERT, SERVER_KEY)}
    if paths[SERVER_CERT].exists() and not paths[CA_KEY].exists():
        return ca_bundle(directory)
    ca = _read(paths[CA_CERT], paths[CA_KEY])
    if ca is None or not _outlives(ca.cert, now + RENEW_BEFORE):
        ca = make_ca("koordpy-ca", now)
        _write(paths[CA_KEY], ca.key, secret=True)
        _write(paths[CA_CERT], ca.cert)
    server = _read(paths[SERVER_CERT], paths[SERVER_KEY])
    if server is None or not serves(server, ca.cert, hosts, now + RENEW_BEFORE):
        server = issue(ca, hosts, now)
        _write(paths[SERVER_KEY], server.key, secret=True)
        _write(paths[SERVER_CERT], server.cert)
    return ca.cert


def ca_bundle(directory: Path) -> bytes:
    """Return the PEM of the CA of a folder's certificate (`ca-cert.pem`, or cert-manager's `ca.crt`)."""
    for name in (CA_CERT, "ca.crt"):
        if (directory / name).exists():
            return (directory / name).read_bytes()
    raise CertificateError(f"{directory}: neither {CA_CERT} nor ca.crt is there to be put into caBundle")


def server_context(directory: Path | None = None) -> ssl.SSLContext:
    """Return a TLS 1.2+ server context with a folder's certificate, or still without one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if directory is not None:
        load_server_certificate(context, directory)
    return context


def load_server_certificate(context: ssl.SSLContext, directory: Path) -> None:
    """(Re)load a folder's certificate into a context: handshakes from now on use it."""
    cert, key = directory / SERVER_CERT, directory / SERVER_KEY
    try:
        context.load_cert_chain(cert, key)
    except (OSError, ssl.SSLError) as error:
        raise CertificateError(f"cannot load {cert} with {key}: {error}") from None


def _builder(
    subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey, now: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))  # clocks of clients may be a little behind
        .not_valid_after(now + LIFETIME)
    )


def _usage(*, sign_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=sign_certificates,
        crl_sign=sign_certificates,
        key_encipherment=False,
        content_commitment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def general_name(host: str) -> x509.GeneralName:
    """Return a host name or address as certificates name it. Raises ValueError where it is neither."""
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def pem(cert: x509.Certificate) -> bytes:
    """Return a certificate as PEM."""
    return cert.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _read(cert: Path, key: Path) -> KeyPair | None:
    try:
        return KeyPair(cert.read_bytes(), key.read_bytes())
    except FileNotFoundError:
        return None


def _write(path: Path, data: bytes, *, secret: bool = False) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600 if secret else 0o644)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    temporary.replace(path)


def _outlives(cert_pem: bytes, at: datetime) -> bool:
    try:
        return x509.load_pem_x509_certificate(cert_pem).not_valid_after_utc >= at
    except ValueError:
        return False
