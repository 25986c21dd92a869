"""Calls admission webhooks as kube-apiserver does.

Mutating webhooks are called one after the other, in the order of their configurations' names; validating ones
concurrently. Configurations are read live. Source: Kubernetes,
`k8s.io/apiserver/pkg/admission/plugin/webhook`.
"""

import asyncio
import base64
import ssl
import uuid
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from koordpy.api import json_patch
from koordpy.api.patch import PatchError
from koordpy.lib.http1 import Caller, Connect, HttpClient, HttpError

from .. import expressions
from ..attributes import Attributes
from ..catalog import Catalog
from ..errors import ApiError, bad_request, forbidden, internal
from ..storage import Event, Table
from .webhook_review import Answer, CallFailed, Status, answer_in, denied, object_of, quoted, request_of
from .webhook_rules import Matcher, is_exempt

Document = dict[str, Any]
ResolveService = Callable[[str, str, int], tuple[str, int]]
"""From namespace, name and port of a service to the host and port that its webhook listens on."""

_HEADERS = {"content-type": "application/json", "accept": "application/json, */*"}
_encode = msgspec.json.Encoder().encode


class _Webhook:
    """One webhook of a configuration, ready to be called."""

    def __init__(self, configuration: str, index: int, webhook: Document) -> None:
        self.name: str = webhook["name"]
        self.id = f"{configuration}/{index}/{self.name}"
        self.matcher = Matcher(webhook)
        self.ignores_failure = webhook.get("failurePolicy") == "Ignore"
        self.timeout = float(webhook.get("timeoutSeconds", 10))
        self.again = webhook.get("reinvocationPolicy") == "IfNeeded"
        self.dry_runs = webhook.get("sideEffects") in ("None", "NoneOnDryRun")
        versions = webhook.get("admissionReviewVersions") or ["v1"]
        self.review_version = next(version for version in versions if version in ("v1", "v1beta1"))
        client = webhook["clientConfig"]
        self.url: str | None = client.get("url")
        self.service: Document | None = client.get("service")
        self.ca_bundle: str = client.get("caBundle") or ""


class WebhookCaller:
    """Calls the configured webhooks.

    `resolve` returns the address of a webhook that is configured by its service: a callback, or a table by
    (namespace, name). Without it such webhooks cannot be reached. `connect` returns the client of a URL's
    origin; by default HTTPS with the webhook's caBundle.
    """

    def __init__(
        self,
        catalog: Catalog,
        resolve: ResolveService | Mapping[tuple[str, str], tuple[str, int]] | None = None,
        connect: Connect | None = None,
    ) -> None:
        self._catalog = catalog
        self._resolve = resolve
        self._connect = connect
        self._clients: dict[tuple[str, str, str], Caller] = {}
        self._known: dict[str, list[_Webhook] | None] = {}
        for plural in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
            self._known[plural] = []
            self._table("admissionregistration.k8s.io", plural).subscribe(self._forgetter(plural))
        self._namespaces = self._table("", "namespaces")

    def _table(self, group: str, plural: str) -> Table:
        served = self._catalog.find(group, "v1", plural)
        if served is None:
            raise LookupError(f"{plural} are not served")
        return served.table

    def _forgetter(self, plural: str) -> Callable[[Event], None]:
        def forget(_: Event) -> None:
            self._known[plural] = None

        return forget

    def reload(self) -> None:
        """Reload all configurations, after they were loaded without events."""
        for plural in self._known:
            self._known[plural] = None

    async def close(self) -> None:
        """Close the connections to all webhooks."""
        clients = list(self._clients.values())
        self._clients.clear()
        for client in clients:
            await client.close()

    # asking

    async def mutate(self, attrs: Attributes, new: Document | None, old: Document | None) -> Document | None:
        """Call the mutating webhooks in turn; return the changed document. Raises ApiError."""
        webhooks = self._webhooks("mutatingwebhookconfigurations")
        if not webhooks or is_exempt(attrs):
            return new
        asked: list[_Webhook] = []
        again: set[str] = set()
        for webhook in webhooks:
            if not self._wants(webhook, attrs, new, old):
                continue
            changed = await self._ask_to_mutate(webhook, attrs, new, old)
            if changed is not new:
                again |= {earlier.id for earlier in asked if earlier.again}
                new = changed
            asked.append(webhook)
        for webhook in asked if again else ():
            if webhook.id in again and self._wants(webhook, attrs, new, old):
                new = await self._ask_to_mutate(webhook, attrs, new, old)
        return new

    async def validate(self, attrs: Attributes, new: Document | None, old: Document | None) -> None:
        """Call the validating webhooks concurrently. Raises ApiError."""
        webhooks = self._webhooks("validatingwebhookconfigurations")
        if not webhooks or is_exempt(attrs):
            return
        wanted = [webhook for webhook in webhooks if self._wants(webhook, attrs, new, old)]
        if not wanted:
            return
        if len(wanted) == 1:
            await self._ask(wanted[0], attrs, new, old)
            return
        asked = [self._ask(webhook, attrs, new, old) for webhook in wanted]
        for result in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result

    def _webhooks(self, plural: str) -> list[_Webhook]:
        known = self._known[plural]
        if known is None:
            table = self._table("admissionregistration.k8s.io", plural)
            known = self._known[plural] = [
                _Webhook(record.key, index, webhook)
                for record in table
                for index, webhook in enumerate(record.document().get("webhooks") or ())
            ]
        return known

    def _wants(
        self, webhook: _Webhook, attrs: Attributes, new: Document | None, old: Document | None
    ) -> bool:
        if not webhook.matcher.matches(attrs, new, old, self._namespace_labels(attrs, new)):
            return False
        if not webhook.matcher.conditions:
            return True
        variables = {
            "object": object_of(attrs, new),
            "oldObject": object_of(attrs, old),
            "request": request_of(attrs, "", new, old),
        }
        failed: expressions.ExpressionError | None = None
        for _, expression in webhook.matcher.conditions:
            try:
                if not expressions.holds(expression, variables):
                    return False
            except expressions.ExpressionError as error:
                failed = error
        if failed is None:
            return True
        if webhook.ignores_failure:
            return False
        told = f"failed calling webhook {quoted(webhook.name)}: match conditions: {failed}"
        raise forbidden(attrs.served.plural, attrs.served.group, attrs.name, told)

    def _namespace_labels(self, attrs: Attributes, new: Document | None) -> Document | None:
        served = attrs.served
        if served.kind == "Namespace" and not served.group:
            if new is not None and not attrs.subresource:
                found: Document = new.get("metadata", {}).get("labels") or {}
                return found
            record = self._namespaces.get(attrs.name)
        elif attrs.namespace:
            record = self._namespaces.get(attrs.namespace)
        else:
            return None
        return dict(record.labels) if record is not None else {}

    async def _ask_to_mutate(
        self, webhook: _Webhook, attrs: Attributes, new: Document | None, old: Document | None
    ) -> Document | None:
        answer = await self._ask(webhook, attrs, new, old)
        if answer is None or answer.patch is None or new is None:
            return new
        try:
            operations = msgspec.json.decode(base64.b64decode(answer.patch, validate=True))
            patched = json_patch.apply(object_of(attrs, new), operations)
        except (ValueError, PatchError, msgspec.DecodeError) as error:
            raise internal(f"webhook {quoted(webhook.name)}: {error}") from None
        if not operations:
            return new
        if not isinstance(patched, dict):
            raise internal(f"webhook {quoted(webhook.name)}: the patched object is not an object")
        for field in ("kind", "apiVersion"):
            patched.pop(field, None)
        if attrs.kind is not None:
            return patched if patched != new else new
        try:
            patched = attrs.served.strategy.read(attrs.served, patched, [])
        except ApiError as error:
            raise internal(f"webhook {quoted(webhook.name)}: {error}") from None
        return patched if patched != new else new

    async def _ask(
        self, webhook: _Webhook, attrs: Attributes, new: Document | None, old: Document | None
    ) -> Answer | None:
        """Return the answer of an allowing webhook, or None if its failure is ignored. Raises ApiError."""
        if attrs.dry_run and not webhook.dry_runs:
            raise bad_request(f"admission webhook {quoted(webhook.name)} does not support dry run")
        try:
            answer = await self._call(webhook, attrs, new, old)
        except CallFailed as error:
            if webhook.ignores_failure:
                return None
            raise internal(f"failed calling webhook {quoted(webhook.name)}: {error}") from None
        attrs.warnings += answer.warnings or ()
        if not answer.allowed:
            raise denied(webhook.name, answer.status or Status())
        return answer

    async def _call(
        self, webhook: _Webhook, attrs: Attributes, new: Document | None, old: Document | None
    ) -> Answer:
        uid = str(uuid.uuid4())
        version = f"admission.k8s.io/{webhook.review_version}"
        review = {
            "kind": "AdmissionReview",
            "apiVersion": version,
            "request": request_of(attrs, uid, new, old),
        }
        client, path = self._client(webhook)
        target = f"{path}?timeout={webhook.timeout:.0f}s"
        try:
            response = await client.request(
                "POST",
                target,
                headers=_HEADERS,
                body=_encode(review),
                timeout=webhook.timeout,
                repeatable=True,
            )
        except HttpError as error:
            raise CallFailed(f'failed to call webhook: Post "{client.origin}{target}": {error}') from None
        if response.status != 200:
            raise CallFailed(f"failed to call webhook: the server answered with status {response.status}")
        return answer_in(response.body, uid, webhook.review_version)

    # connections

    def _client(self, webhook: _Webhook) -> tuple[Caller, str]:
        if webhook.url is not None:
            parts = urlsplit(webhook.url)
            origin, hostname, path = f"https://{parts.netloc}", parts.hostname or "", parts.path or "/"
        else:
            service = webhook.service or {}
            namespace, name, port = service["namespace"], service["name"], service.get("port", 443)
            host, number = self._address(namespace, name, port)
            host = f"[{host}]" if ":" in host else host
            origin, hostname = f"https://{host}:{number}", f"{name}.{namespace}.svc"
            path = service.get("path") or "/"
            path = path if path.startswith("/") else f"/{path}"
        key = (origin, hostname, webhook.ca_bundle)
        client = self._clients.get(key)
        if client is None and self._connect is not None:
            client = self._clients[key] = self._connect(origin)
        if client is None:
            try:
                tls = _tls(webhook.ca_bundle)
            except (ssl.SSLError, ValueError) as error:
                raise CallFailed(f"unable to load root certificates: {error}") from None
            client = HttpClient(origin, tls=tls, server_hostname=hostname, limit=256)
            self._clients[key] = client
        return client, path

    def _address(self, namespace: str, name: str, port: int) -> tuple[str, int]:
        found: tuple[str, int] | None = None
        if callable(self._resolve):
            try:
                found = self._resolve(namespace, name, port)
            except LookupError:
                found = None
        elif self._resolve is not None:
            found = self._resolve.get((namespace, name))
        if found is None:
            raise CallFailed(
                f'failed to call webhook: service "{name}" in namespace "{namespace}" has no address'
            )
        return found


def _tls(ca_bundle: str) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if ca_bundle:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=base64.b64decode(ca_bundle).decode("ascii", "replace"))
    return context
