"""Whether kube-apiserver calls the webhooks that are served, trusts their certificate, and reaches them."""

import ssl
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from cryptography import x509

from koordpy import data
from koordpy.admission.serving.config import Mode
from koordpy.api.core import (
    MutatingWebhookConfiguration,
    Pod,
    Secret,
    Service,
    ValidatingWebhookConfiguration,
)
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.errors import NotFound
from koordpy.features.feature import Part
from koordpy.lib import certificates
from koordpy.lib.counting import counted
from koordpy.lib.http1 import HttpClient, HttpError

from . import failure_policies
from .finding import Area, Finding, State
from .installation import Installation

AREA = Area("webhooks")

Document = Mapping[str, Any]

_CERTIFICATES = ("tls.crt", "cert.pem")
_TIMEOUT = 5.0


async def check(installation: Installation) -> AsyncIterator[Finding]:
    """Compare both webhook configurations with the paths that are served."""
    if Part.ADMISSION not in installation.parts:
        yield AREA.skipped(installation.unchecked(Part.ADMISSION))
        return
    serving = await _serving_certificate(installation)
    if isinstance(serving, Finding):
        yield serving
    certificate = serving if isinstance(serving, bytes) else b""
    registration = installation.settings.admission.registration
    services: dict[tuple[str, str, int], list[str]] = {}
    configurations: list[tuple[Document, Document, bool | None]] = []
    for type_, name, file in (
        (MutatingWebhookConfiguration, registration.mutating, "mutating.yaml"),
        (ValidatingWebhookConfiguration, registration.validating, "validating.yaml"),
    ):
        [shipped] = data.documents("webhooks", file)
        expected = [entry for entry in shipped["webhooks"] if path_of(entry) in installation.chains]
        if not expected:
            continue
        try:
            document = await installation.client.get_raw(resource_of(type_), "", name)
        except NotFound:
            paths = ", ".join(sorted({path_of(entry) for entry in expected}))
            yield AREA.problem(
                name,
                f"does not exist: kube-apiserver calls none of {paths}",
                f"kubectl apply -f deploy/webhooks/{file}; koordpy serve completes it",
            )
            continue
        found = document.get("webhooks") or []
        problems = [
            *_missing(name, file, expected, found),
            *_authorities(name, found, certificate, installation),
        ]
        for problem in problems:
            yield problem
        for entry in found:
            service = (entry.get("clientConfig") or {}).get("service")
            if service:
                place = (service["namespace"], service["name"], service.get("port") or 443)
                services.setdefault(place, []).append(entry["name"])
        if not any(problem.state.value == "problem" for problem in problems):
            yield AREA.ok(name, f"registers {counted(len(found), 'webhook')}")
        is_answered: bool | None = (
            any((entry.get("clientConfig") or {}).get("url") for entry in found) or None
        )
        async for unheard in _unheard(name, found):
            is_answered = False
            yield unheard
        configurations.append((document, shipped, is_answered))
    is_ready: bool | None = None
    for (namespace, service_name, port), users in services.items():
        reach = await _reachable(installation.client, namespace, service_name, port, users)
        if reach.state is not State.NOTE:
            is_ready = is_ready is not False and reach.state is State.OK
        yield reach
    for configuration, manifest, is_answered in configurations:
        ready = is_ready if is_answered is None else is_answered
        for policy in failure_policies.check(AREA, configuration, manifest, is_ready=ready):
            yield policy


def path_of(entry: Document) -> str:
    """Return the path at which a webhook is called."""
    config = entry.get("clientConfig") or {}
    service = config.get("service") or {}
    return str(service.get("path") or urlsplit(config.get("url") or "").path)


# --- what is registered ----------------------------------------------------------------------------


def _missing(
    name: str, file: str, expected: Sequence[Document], found: Sequence[Document]
) -> Iterator[Finding]:
    """Yield the shipped entries that are missing or weakened in the cluster."""
    present = {entry.get("name"): entry for entry in found}
    restore = (
        f"kubectl apply -f deploy/webhooks/{file} and remove the annotation `template`, so that koordpy "
        "completes it again"
    )
    for entry in expected:
        path, title = path_of(entry), entry["name"]
        given = present.get(title) or next((other for other in found if path_of(other) == path), None)
        if given is None:
            yield AREA.problem(
                f"{name}: {title}", f"is missing: kube-apiserver does not call {path}", restore
            )
            continue
        if path_of(given) != path:
            yield AREA.problem(
                f"{name}: {title}", f"calls {path_of(given) or 'no path'}, expected {path}", restore
            )
        uncovered = [rule for rule in entry["rules"] if not _covered(rule, given.get("rules") or [])]
        for rule in uncovered:
            what = f"{', '.join(rule['operations'])} of {', '.join(rule['resources'])}"
            yield AREA.problem(f"{name}: {title}", f"its rules leave out {what}", restore)


def _covered(rule: Document, given: Sequence[Document]) -> bool:
    """Return whether every operation on every resource of a rule is among others."""

    def has(values: Sequence[str], value: str) -> bool:
        return "*" in values or value in values or ("/" in value and f"{value.partition('/')[0]}/*" in values)

    return all(
        any(
            has(other.get("operations") or (), operation)
            and has(other.get("apiGroups") or (), group)
            and has(other.get("resources") or (), resource)
            and any(has(other.get("apiVersions") or (), version) for version in rule["apiVersions"])
            for other in given
        )
        for operation in rule["operations"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    )


# --- trust -----------------------------------------------------------------------------------------


async def _serving_certificate(installation: Installation) -> bytes | Finding:
    """Return the certificate that is served (PEM), from the Secret or the folder that it is kept in.

    Without koordpy's own settings the Secret counts: a folder may be of another koordpy on this machine.
    """
    settings = installation.settings.admission
    serving = settings.certificates
    folder = settings.certificate_folder
    in_folder = folder / certificates.SERVER_CERT
    is_told = settings.cert_dir is not None or "certificates" in settings.model_fields_set
    if is_told and serving.mode is not Mode.SECRET and in_folder.exists():
        return in_folder.read_bytes()
    subject = f"Secret {serving.namespace}/{serving.secret_name}"
    try:
        secret = await installation.client.get(Secret, serving.namespace, serving.secret_name)
    except NotFound:
        if serving.mode is Mode.SECRET:
            return AREA.problem(
                subject,
                "does not exist: no webhook server has made its certificate yet",
                "check that koordpy's webhooks run (kubectl -n koordinator-system get pods); the first makes "
                "it",
            )
        if in_folder.exists():
            return in_folder.read_bytes()
        return AREA.unknown(
            "certificate",
            f"is neither in {folder} nor in the {subject}: caBundle cannot be compared",
            "run the doctor with the webhooks' own configuration (--config), where their certificate is",
        )
    for name in _CERTIFICATES:
        if secret.data.get(name):
            return b64decode(secret.data[name])
    return AREA.problem(subject, "holds no tls.crt", "delete it: the webhooks make it again")


def _authorities(
    name: str, found: Sequence[Document], certificate: bytes, installation: Installation
) -> Iterator[Finding]:
    served, now = _parsed(certificate), installation.clock.now()
    complete = (
        "koordpy serve writes it (admission.registration); with cert-manager see its injector; by hand: the "
        "base64 of the authority's PEM"
    )
    seen: set[str] = set()
    for entry in found:
        if path_of(entry) not in installation.chains:
            continue
        bundle = (entry.get("clientConfig") or {}).get("caBundle") or ""
        subject = f"{name}: {entry.get('name')}"
        if not bundle:
            yield AREA.problem(
                subject, "caBundle is empty: kube-apiserver trusts no certificate there", complete
            )
            continue
        if bundle in seen:
            continue
        seen.add(bundle)
        try:
            authorities = _parsed(b64decode(bundle, validate=True))
        except NotBase64:
            authorities = []
        if not authorities:
            yield AREA.problem(subject, "caBundle holds no certificate (PEM)", complete)
        elif all(authority.not_valid_after_utc <= now for authority in authorities):
            ends = max(authority.not_valid_after_utc for authority in authorities)
            yield AREA.problem(subject, f"the authority in caBundle ended {ends:%Y-%m-%d}", complete)
        elif served and not any(_issued(one, other) for one in served for other in authorities):
            yield AREA.problem(
                subject,
                "caBundle is not the authority of the certificate that is served: kube-apiserver refuses the "
                "connection",
                complete,
            )
    if served and served[0].not_valid_after_utc <= now:
        ended = f"{served[0].not_valid_after_utc:%Y-%m-%d}"
        yield AREA.problem("certificate", f"ended {ended}", "renew it, or delete the Secret")


def _parsed(pem: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem) if pem else []
    except ValueError:
        return []


def _issued(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except Exception:  # each kind of key has errors of its own
        return False
    return True


# --- reach -----------------------------------------------------------------------------------------


async def _unheard(name: str, found: Sequence[Document]) -> AsyncIterator[Finding]:
    """Call the servers of webhooks with a URL, as kube-apiserver does; yield those that do not answer."""
    asked: set[tuple[str, str]] = set()
    for entry in found:
        config = entry.get("clientConfig") or {}
        parts = urlsplit(config.get("url") or "")
        origin, bundle = f"{parts.scheme}://{parts.netloc}", config.get("caBundle") or ""
        if not parts.netloc or not bundle or (origin, bundle) in asked:
            continue
        asked.add((origin, bundle))
        try:
            context = ssl.create_default_context(cadata=b64decode(bundle).decode("ascii"))
            context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)  # no stricter than kube-apiserver
            client = HttpClient(origin, tls=context, connect_timeout=_TIMEOUT)
            try:
                await client.request("GET", "/healthz", timeout=_TIMEOUT)
            finally:
                await client.close()
        except (HttpError, OSError, ValueError) as error:  # ssl's are OSErrors, base64's ValueErrors
            yield AREA.warning(
                f"{name}: {entry.get('name')}",
                f"{origin} does not answer from here under its caBundle: {error}",
                "check that koordpy serves there; it may be reachable from the API server only",
            )


async def _reachable(client: Client, namespace: str, name: str, port: int, users: Sequence[str]) -> Finding:
    """Return whether the Service through which webhooks are called has ready pods."""
    subject = f"Service {namespace}/{name}"
    apply = "kubectl apply -f deploy/webhooks/service.yaml"
    try:
        service = await client.get_raw(resource_of(Service), namespace, name)
    except NotFound:
        called = counted(len(users), "webhook")
        return AREA.problem(subject, f"does not exist; called through it: {called}", apply)
    spec = service.get("spec") or {}
    ports = [item.get("port") for item in spec.get("ports") or []]
    if port not in ports:
        return AREA.problem(
            subject, f"has no port {port} (it has {', '.join(map(str, ports)) or 'none'})", apply
        )
    selector = spec.get("selector") or {}
    labels = ",".join(f"{key}={value}" for key, value in selector.items())
    if not labels:
        return AREA.note(subject, "has no selector: its endpoints were not checked")
    pods = await client.list_all(Pod, namespace, label_selector=labels)
    ready = sum(
        any((c.type, c.status) == ("Ready", "True") for c in pod.status.conditions)
        for pod in pods
        if not pod.metadata.deletion_timestamp
    )
    if not ready:
        return AREA.problem(
            subject,
            f"no pod behind it ({labels}) is ready: every webhook call fails",
            f"kubectl -n {namespace} get pods -l {labels}; koordpy health in such a pod says what is missing",
        )
    return AREA.ok(subject, f"ready pods behind it: {ready} of {len(pods)}")
