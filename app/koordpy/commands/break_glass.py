"""`koordpy break-glass`: let objects through while no webhook answers, and the way back."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from .options import Failure, cluster_options

if TYPE_CHECKING:
    from koordpy.cluster.client import Client

_LABEL: Final = ("app.kubernetes.io/name", "koordpy")

_ATTEMPTS: Final = 5
"""Attempts to write an object that others write concurrently."""


@click.command("break-glass")
@click.option("--undo", is_flag=True, help="Restore the failure policies from before.")
@cluster_options
def break_glass(undo: bool, **access: Any) -> None:
    """Let pods through at once when koordpy's webhooks do not answer.

    Sets failurePolicy to Ignore in koordpy's webhook configurations, and records what had Fail, for --undo.
    Running replicas of koordpy keep the new policies. Nothing else is changed, and no webhook is called for
    it.
    """
    from koordpy.admission.serving import failure_policy

    change = failure_policy.closed if undo else failure_policy.opened
    written = asyncio.run(_run(access, change))
    for document, changed in written:
        meta = document["metadata"]
        failing = failure_policy.failing(document)
        state = f"Fail for {', '.join(failing)}" if failing else "Ignore for every webhook"
        click.echo(f"{document['kind']} {meta['name']}: {'' if changed else 'unchanged; '}{state}")
    if undo:
        return
    if any(failure_policy.names(document, failure_policy.BREAK_GLASS) for document, _ in written):
        click.echo("Pods pass as they are while no webhook answers. Afterwards: koordpy break-glass --undo")


async def _run(
    access: Mapping[str, str | None], change: Callable[[Mapping[str, Any]], dict[str, Any]]
) -> list[tuple[dict[str, Any], bool]]:
    from koordpy.cluster.client import Client
    from koordpy.cluster.connection import Connection

    reach = (access["kubeconfig"], access["context"], access["server"])
    client = Client(Connection.find(*reach), timeout=10, attempts=3)
    try:
        return await write(client, change)
    finally:
        await client.close()


async def write(
    client: "Client", change: Callable[[Mapping[str, Any]], dict[str, Any]]
) -> list[tuple[dict[str, Any], bool]]:
    """Change koordpy's webhook configurations; return each with whether it was changed.

    Raises Failure where there is none, ApiError or ConnectionFailed.
    """
    from koordpy.api.core import MutatingWebhookConfiguration, ValidatingWebhookConfiguration
    from koordpy.api.scheme import resource_of
    from koordpy.cluster.errors import Conflict

    written: list[tuple[dict[str, Any], bool]] = []
    for type_ in (MutatingWebhookConfiguration, ValidatingWebhookConfiguration):
        resource = resource_of(type_)
        async for document in _ours(client.list_raw(resource)):
            name = document["metadata"]["name"]
            for attempt in range(_ATTEMPTS):
                wanted = change(document)
                if wanted == document:
                    written.append((document, False))
                    break
                try:
                    written.append((await client.update_raw(resource, "", name, wanted), True))
                    break
                except Conflict:
                    if attempt == _ATTEMPTS - 1:
                        raise
                    document = await client.get_raw(resource, "", name)
    if not written:
        raise Failure("the cluster has no webhook configuration of koordpy's: nothing waits for its webhooks")
    return written


async def _ours(documents: AsyncIterator[dict[str, Any]]) -> AsyncIterator[dict[str, Any]]:
    """Yield koordpy's configurations: by its label, or by the names that the manifests have."""
    from koordpy.admission.serving.config import RegistrationSettings

    defaults = RegistrationSettings()
    label, value = _LABEL
    async for document in documents:
        meta = document["metadata"]
        is_labelled = (meta.get("labels") or {}).get(label) == value
        if is_labelled or meta["name"] in (defaults.mutating, defaults.validating):
            yield document
