"""Certificates for serving TLS and for its clients: created, verified, and stored in folders.

File names are Koordinator's: `ca-cert.pem`, `ca-key.pem`, `tls.crt`, `tls.key`. A production cluster mounts
a folder with the same names (cert-manager writes `tls.crt`, `tls.key` and `ca.crt`). Where callers are
authenticated by certificates, `client.crt` and `client.key` are theirs.

Source: Koordinator, `pkg/webhook/util/generator/selfsigned.go`.
"""

import ipaddress
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from koordpy.lib.certificate_files import CA_CERT as CA_CERT
from koordpy.lib.certificate_files import CA_KEY as CA_KEY
from koordpy.lib.certificate_files import CLIENT_CERT as CLIENT_CERT
from koordpy.lib.certificate_files import CLIENT_KEY as CLIENT_KEY
from koordpy.lib.certificate_files import SERVER_CERT as SERVER_CERT
from koordpy.lib.certificate_files import SERVER_KEY as SERVER_KEY
from koordpy.lib.certificate_files import CertificateError as CertificateError
from koordpy.lib.certificate_files import require_trusted as require_trusted

LIFETIME: Final = timedelta(days=3650)

MONTHS_AHEAD: Final = 6
"""Calendar months for which a certificate must still be valid; otherwise it is replaced."""

CLIENT_LIFETIME: Final = timedelta(days=365)
"""A client certificate leaves the folder and cannot be revoked, so it lives shorter than the others."""

CLOCK_SKEW: Final = timedelta(hours=1)
"""How far the clocks of others may be behind: validity begins this long before a certificate is created.

Source: Kubernetes, `staging/src/k8s.io/client-go/util/cert/cert.go`.
"""

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


class KeyType(Enum):
    """The type of created keys. A server certificate's key has the same type as its authority's."""

    EC = "EC"
    """P-256, in PKCS#8."""
    RSA = "RSA"
    """2048 bits, in PKCS#1, the only form that koord-manager reads; creating one takes 0.1 s."""


@dataclass(frozen=True)
class KeyPair:
    """A certificate and its private key, PEM. The key never shows in a repr."""

    cert: bytes
    key: bytes

    def __repr__(self) -> str:
        return f"KeyPair({x509.load_pem_x509_certificate(self.cert).subject.rfc4514_string()!r})"


def make_ca(
    name: str, now: datetime, key_type: KeyType = KeyType.EC, *, begins: datetime | None = None
) -> KeyPair:
    """Create a self-signed certificate authority. By default it is valid from `CLOCK_SKEW` before now."""
    key = _make_key(key_type)
    subject = _name(name)
    builder = (
        _builder(subject, subject, key, now, begins)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_usage(key, signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return _signed(builder, key, key)


def issue(
    ca: KeyPair,
    hosts: Sequence[str],
    now: datetime,
    *,
    name: str | None = None,
    begins: datetime | None = None,
) -> KeyPair:
    """Create a server certificate for host names and IP addresses, signed by an authority.

    `name` is its common name, by default the first host. Raises CertificateError for an invalid host, and for
    an authority whose key is neither EC nor RSA.
    """
    names = [_general_name(host) for host in hosts]
    authority, signer = x509.load_pem_x509_certificate(ca.cert), _signer(ca)
    key = _make_key(KeyType.RSA if isinstance(signer, rsa.RSAPrivateKey) else KeyType.EC)
    builder = _leaf(
        _builder(_name(name or hosts[0]), authority.subject, key, now, begins),
        key,
        signer,
        ExtendedKeyUsageOID.SERVER_AUTH,
    ).add_extension(x509.SubjectAlternativeName(names), critical=False)
    return _signed(builder, key, signer)


def issue_client(ca: KeyPair, name: str, now: datetime) -> KeyPair:
    """Create a client certificate with a common name, signed by an authority, for `CLIENT_LIFETIME`.

    Raises CertificateError for an authority whose key is neither EC nor RSA.
    """
    authority, signer = x509.load_pem_x509_certificate(ca.cert), _signer(ca)
    key = _make_key(KeyType.RSA if isinstance(signer, rsa.RSAPrivateKey) else KeyType.EC)
    builder = _builder(_name(name), authority.subject, key, now, None, now + CLIENT_LIFETIME)
    return _signed(_leaf(builder, key, signer, ExtendedKeyUsageOID.CLIENT_AUTH), key, signer)


def begin_of(cert_pem: bytes) -> datetime:
    """Return when a certificate begins to be valid."""
    return x509.load_pem_x509_certificate(cert_pem).not_valid_before_utc


def problem(server: KeyPair, ca_cert: bytes, hosts: Sequence[str], at: datetime) -> str:
    """Return why a server certificate must be replaced: it is not valid for all hosts at a time. Empty if
    valid.

    Nothing is raised: an unreadable certificate must be replaced.
    """
    try:
        cert, reason = _examined(server, ca_cert, at)
        if reason:
            return reason
        if not _is_for(cert, ExtendedKeyUsageOID.SERVER_AUTH):
            return "not for servers"
        uncovered = [host for host in hosts if not covers(cert, host)]
        return f"not for {', '.join(uncovered)}" if uncovered else ""
    except Exception as error:  # the library raises many types of errors for unreadable input
        return f"unreadable: {str(error) or type(error).__name__}"


def client_problem(client: KeyPair, ca_cert: bytes, at: datetime) -> str:
    """Return why a client certificate must be replaced, as `problem` does for server certificates."""
    try:
        cert, reason = _examined(client, ca_cert, at)
        return reason or ("" if _is_for(cert, ExtendedKeyUsageOID.CLIENT_AUTH) else "not for clients")
    except Exception as error:  # the library raises many types of errors for unreadable input
        return f"unreadable: {str(error) or type(error).__name__}"


def _examined(pair: KeyPair, ca_cert: bytes, at: datetime) -> tuple[x509.Certificate, str]:
    """Return a certificate, and what is wrong with its key, signature or validity."""
    cert = x509.load_pem_x509_certificate(pair.cert)
    return cert, _pair_problem(cert, pair.key, ca_cert, at)


def _pair_problem(cert: x509.Certificate, key_pem: bytes, ca_cert: bytes, at: datetime) -> str:
    ca = x509.load_pem_x509_certificate(ca_cert)
    key = serialization.load_pem_private_key(key_pem, None)
    if key.public_key() != cert.public_key():
        return "the key does not belong to the certificate"
    try:
        cert.verify_directly_issued_by(ca)
    except Exception as error:  # each kind of key has its own errors
        return f"not signed by its CA: {str(error) or type(error).__name__}"
    for what, one in (("CA", ca), ("certificate", cert)):
        if not one.not_valid_before_utc <= at <= one.not_valid_after_utc:
            return f"the {what} ends {one.not_valid_after_utc:%Y-%m-%d}, before {at:%Y-%m-%d}"
    return ""


def covers(cert: x509.Certificate, host: str) -> bool:
    """Return whether a certificate names a host (or address); a leading `*.` stands for one label."""
    try:
        names = cert.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False
    wanted = _general_name(host)
    if wanted in names:
        return True
    label, _, parent = host.partition(".")
    return isinstance(wanted, x509.DNSName) and bool(label) and x509.DNSName(f"*.{parent}") in names


def can_sign(ca: KeyPair, until: datetime, key_types: Sequence[KeyType] = tuple(KeyType)) -> bool:
    """Return whether a pair is a self-signed authority with its key that is valid at a time."""
    try:
        key = serialization.load_pem_private_key(ca.key, None)
        [cert] = x509.load_pem_x509_certificates(ca.cert)
        cert.verify_directly_issued_by(cert)
        is_ca = cert.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except Exception:  # with any error it cannot sign
        return False
    types = tuple(_KEY_CLASSES[type_] for type_ in key_types)
    fits = isinstance(key, types) and key.public_key() == cert.public_key()
    return is_ca and fits and is_valid(ca.cert, until)


def is_valid(cert_pem: bytes, at: datetime) -> bool:
    """Return whether a PEM has a certificate that is valid at a time."""
    try:
        cert = x509.load_pem_x509_certificate(cert_pem)
    except ValueError:
        return False
    return cert.not_valid_before_utc <= at <= cert.not_valid_after_utc


def months_later(moment: datetime, months: int) -> datetime:
    """Return the same day some calendar months later; days that the month lacks overflow into the next."""
    years, month = divmod(moment.month - 1 + months, 12)
    first = moment.replace(year=moment.year + years, month=month + 1, day=1)
    return first + timedelta(days=moment.day - 1)


def ensure(directory: Path, hosts: Sequence[str], now: datetime, *, client: str | None = None) -> bytes:
    """Ensure a CA and a server certificate for these hosts in a folder; return the CA's PEM.

    With `client` there is also a client certificate with this common name. Certificates that stay valid for
    `MONTHS_AHEAD` are kept. The CA is kept as long as it can sign, so that clients that trust it need no
    update. A folder with a server certificate but no CA key belongs to cert-manager or to an operator:
    nothing in it is changed. Raises CertificateError for a folder or file that another user controls.
    """
    directory.mkdir(0o755, parents=True, exist_ok=True)
    names = (CA_CERT, CA_KEY, SERVER_CERT, SERVER_KEY, CLIENT_CERT, CLIENT_KEY)
    paths = {name: directory / name for name in names}
    require_trusted(directory, *paths.values())
    if is_given(directory):
        return ca_bundle(directory)
    until = months_later(now, MONTHS_AHEAD)
    ca = _read(paths[CA_CERT], paths[CA_KEY])
    if ca is None or not can_sign(ca, until):
        ca = make_ca("koordpy-ca", now)
        _write(paths[CA_KEY], ca.key, secret=True)
        _write(paths[CA_CERT], ca.cert)
    server = _read(paths[SERVER_CERT], paths[SERVER_KEY])
    if server is None or problem(server, ca.cert, hosts, until):
        server = issue(ca, hosts, now)
        _write(paths[SERVER_KEY], server.key, secret=True)
        _write(paths[SERVER_CERT], server.cert)
    pair = None if client is None else _read(paths[CLIENT_CERT], paths[CLIENT_KEY])
    if client is not None and (pair is None or client_problem(pair, ca.cert, until)):
        pair = issue_client(ca, client, now)
        _write(paths[CLIENT_KEY], pair.key, secret=True)
        _write(paths[CLIENT_CERT], pair.cert)
    return ca.cert


def is_given(directory: Path) -> bool:
    """Return whether a folder has a server certificate that was not generated by `ensure`."""
    return (directory / SERVER_CERT).exists() and not (directory / CA_KEY).exists()


def ca_bundle(directory: Path) -> bytes:
    """Return the PEM of the CA of a folder's certificate (`ca-cert.pem`, or cert-manager's `ca.crt`).

    Raises CertificateError where there is none, or another user controls it.
    """
    for name in (CA_CERT, "ca.crt"):
        if (directory / name).exists():
            require_trusted(directory / name)
            return (directory / name).read_bytes()
    raise CertificateError(f"{directory}: neither {CA_CERT} nor ca.crt exists for caBundle")


_LABEL = r"[A-Za-z0-9_]([-A-Za-z0-9_]{0,61}[A-Za-z0-9_])?"
_HOST_NAME: Final = re.compile(rf"(?=.{{1,253}}$)(\*\.)?{_LABEL}(\.{_LABEL})*\.?")

_KEY_CLASSES: Final = {KeyType.EC: ec.EllipticCurvePrivateKey, KeyType.RSA: rsa.RSAPrivateKey}


def _make_key(key_type: KeyType) -> PrivateKey:
    if key_type is KeyType.RSA:
        return rsa.generate_private_key(65537, 2048)
    return ec.generate_private_key(ec.SECP256R1())


def _signer(ca: KeyPair) -> PrivateKey:
    signer = serialization.load_pem_private_key(ca.key, None)
    if not isinstance(signer, PrivateKey):
        raise CertificateError(f"the CA key is a {type(signer).__name__}; expected an EC or RSA key")
    return signer


def _leaf(
    builder: x509.CertificateBuilder, key: PrivateKey, signer: PrivateKey, usage: x509.ObjectIdentifier
) -> x509.CertificateBuilder:
    authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    return (
        builder.add_extension(_usage(key, signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(authority, critical=False)
    )


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: PrivateKey,
    now: datetime,
    begins: datetime | None,
    ends: datetime | None = None,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins or now - CLOCK_SKEW)
        .not_valid_after(ends or now + LIFETIME)
    )


def _signed(builder: x509.CertificateBuilder, key: PrivateKey, signer: PrivateKey) -> KeyPair:
    is_rsa = isinstance(key, rsa.RSAPrivateKey)
    form = serialization.PrivateFormat.TraditionalOpenSSL if is_rsa else serialization.PrivateFormat.PKCS8
    return KeyPair(
        builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM),
        key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()),
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common[:64])])


def _usage(key: PrivateKey, *, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_encipherment=isinstance(key, rsa.RSAPrivateKey),
        key_cert_sign=signs,
        crl_sign=False,
        content_commitment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _is_for(cert: x509.Certificate, usage: x509.ObjectIdentifier) -> bool:
    try:
        usages = cert.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return True
    return usage in usages or ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE in usages


def _general_name(host: str) -> x509.GeneralName:
    """Return a host name or address as certificates name it. Raises CertificateError if it is neither."""
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        if not _HOST_NAME.fullmatch(host):
            raise ValueError
        return x509.DNSName(host)
    except ValueError:
        raise CertificateError(f"got {host!r}, expected a host name or an address") from None


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
