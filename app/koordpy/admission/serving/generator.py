"""Make a self-signed authority and a server certificate, and judge those that are there.

Keys are RSA 2048 in PKCS#1, as Koordinator's are, so that koord-manager and koordpy can take over each
other's Secret. Making a key takes a tenth of a second: callers on an event loop use a thread.

Source: Koordinator, `pkg/webhook/util/generator/selfsigned.go`.
"""

from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from koordpy.lib.certificates import LIFETIME, CertificateError, general_name, pem

from .artifacts import Artifacts

CA_NAME: Final = "webhook-cert-ca"

CA_RENEW_BEFORE: Final = timedelta(days=365)
"""An authority that ends sooner than this signs nothing new."""

MONTHS_AHEAD: Final = 6
"""Calendar months for which a certificate must still be good."""


def generate(dns: str, now: datetime, old: Artifacts | None = None) -> Artifacts:
    """Make a server certificate for a host name or IPv4 address (and `localhost`).

    The authority of `old` signs it if it can for another year, else a new one does.
    """
    signer = None if old is None else _authority(old, now)
    if signer is None:
        ca_key, ca = _make_authority(now)
        pems = _key_pem(ca_key), pem(ca)
    else:
        assert old is not None
        (ca_key, ca), pems = signer, (old.ca_key, old.ca_cert)
    key = rsa.generate_private_key(65537, 2048)
    cert = (
        x509.CertificateBuilder()
        .subject_name(_name(dns))
        .issuer_name(ca.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(ca.not_valid_before_utc)
        .not_valid_after(now + LIFETIME)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
        )
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName("localhost"), _general_name(dns)]), critical=False
        )
        .sign(ca_key, hashes.SHA256())
    )
    return Artifacts(pems[0], pems[1], _key_pem(key), pem(cert))


def problem(artifacts: Artifacts, dns: str, now: datetime) -> str:
    """Say why a certificate must be replaced: it does not serve `dns`, now or in half a year. Empty: good.

    Whatever anybody has put there is judged, not raised: what cannot be read is replaced.
    """
    missing = [name for name in ("key", "cert", "ca_cert") if not getattr(artifacts, name)]
    if missing:
        return f"{', '.join(missing).replace('_', ' ')} missing"
    try:
        return _problem(artifacts, dns, months_later(now, MONTHS_AHEAD))
    except Exception as error:  # the library has many ways to say that it cannot read something
        return f"unreadable: {error or type(error).__name__}"


def _problem(artifacts: Artifacts, dns: str, at: datetime) -> str:
    cert = x509.load_pem_x509_certificate(artifacts.cert)
    ca = x509.load_pem_x509_certificate(artifacts.ca_cert)
    key = serialization.load_pem_private_key(artifacts.key, None)
    if key.public_key() != cert.public_key():
        return "the key does not belong to the certificate"
    try:
        cert.verify_directly_issued_by(ca)
    except Exception as error:  # each kind of key has errors of its own
        return f"not signed by its CA: {error or type(error).__name__}"
    for what, one in (("CA", ca), ("certificate", cert)):
        if not one.not_valid_before_utc <= at <= one.not_valid_after_utc:
            return f"the {what} ends {one.not_valid_after_utc:%Y-%m-%d}, before {at:%Y-%m-%d}"
    if not _serves(cert):
        return "not for servers"
    return "" if covers(cert, dns) else f"not for {dns}"


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


def months_later(moment: datetime, months: int) -> datetime:
    """Return the same day so many calendar months later; days that the month lacks run over into the next."""
    years, month = divmod(moment.month - 1 + months, 12)
    first = moment.replace(year=moment.year + years, month=month + 1, day=1)
    return first + timedelta(days=moment.day - 1)


def is_valid_authority(ca_cert: bytes, at: datetime) -> bool:
    """Return whether a PEM has an authority that has begun and not ended at a time."""
    try:
        ca = x509.load_pem_x509_certificate(ca_cert)
    except ValueError:
        return False
    return ca.not_valid_before_utc <= at <= ca.not_valid_after_utc


def _authority(old: Artifacts, now: datetime) -> tuple[rsa.RSAPrivateKey, x509.Certificate] | None:
    """Return an authority that can go on signing, or None."""
    try:
        key = serialization.load_pem_private_key(old.ca_key, None)
        [ca] = x509.load_pem_x509_certificates(old.ca_cert)
        ca.verify_directly_issued_by(ca)
        is_ca = ca.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except Exception:  # whatever is wrong with it, it does not sign
        return None
    if not isinstance(key, rsa.RSAPrivateKey) or key.public_key() != ca.public_key() or not is_ca:
        return None
    at = now + CA_RENEW_BEFORE
    return (key, ca) if ca.not_valid_before_utc <= at <= ca.not_valid_after_utc else None


def _make_authority(now: datetime) -> tuple[rsa.RSAPrivateKey, x509.Certificate]:
    key = rsa.generate_private_key(65537, 2048)
    name = _name(CA_NAME)
    ca = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + LIFETIME)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return key, ca


def _serves(cert: x509.Certificate) -> bool:
    try:
        usages = cert.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return True
    return ExtendedKeyUsageOID.SERVER_AUTH in usages or ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE in usages


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common[:64])])


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_encipherment=True,
        key_cert_sign=signs,
        crl_sign=False,
        content_commitment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return general_name(host)
    except ValueError:
        raise CertificateError(f"{host!r} is neither a host name nor an address") from None


def _key_pem(key: rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
