"""`koordpy profile`: explain, preview and lint ClusterColocationProfiles.

Exit codes: 0 without bad results, 1 when the command failed, 2 for wrong options, 3 for bad results (lint:
errors; explain and preview: pods that admission would refuse).
"""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import click

from .options import (
    Failure,
    cluster_options,
    documents,
    files_option,
    gates_option,
    namespace_option,
    output_option,
)
from .output import Format, emit

R = TypeVar("R")

FOUND = 3
"""The exit code of a command that succeeded with bad results."""


config_option = click.option(
    "--config",
    type=click.Path(path_type=Path),
    help="KoordpyConfiguration of the webhooks, with their handlers, arguments and feature gates.",
)


@click.group()
def profile() -> None:
    """Explain, preview and lint ClusterColocationProfiles."""


@profile.command(short_help="Show what admission does to pods, and why.")
@click.argument("pods", metavar="[NAMESPACE/POD]...", nargs=-1)
@files_option("YAML of pods, workloads, profiles, namespaces, priority classes")
@namespace_option
@config_option
@gates_option
@cluster_options
@output_option
@click.pass_context
def explain(
    this: click.Context,
    /,
    pods: tuple[str, ...],
    files: tuple[str, ...],
    namespace: str,
    config: Path | None,
    feature_gates: str,
    output: Format,
    **access: Any,
) -> None:
    """Show which profiles match a pod, what each changes and why, and the resulting patch.

    Pods come from files (-f), or by name from the cluster; admission treats them as if they were created
    again. Offline, only the files count; with a cluster, its profiles, namespaces and priority classes count
    too, and those in files take precedence. A profile's probability above 0 counts as 1.

    Exit code 3: admission would refuse some of the pods.
    """
    from . import explain as explaining
    from .known import Access
    from .webhooks import Webhooks

    if not files and not pods:
        raise click.UsageError("nothing to explain: expected -f FILE or NAMESPACE/POD")
    found = asyncio.run(
        explaining.explain(
            _objects(files),
            pods=[_pod_name(pod) for pod in pods],
            namespace=namespace,
            webhooks=Webhooks.of(config, feature_gates),
            access=(given := Access(**access)),
        )
    )
    if not found:
        raise Failure(f"{', '.join(files)}: no pod or workload")
    only_files = not (given.is_given or pods)
    plain = [item.model_dump(mode="json") for item in found]
    emit(plain, output, lambda to: explaining.show(to, found, only_files=only_files))
    if any(item.refusal for item in found):
        this.exit(FOUND)


@profile.command(short_help="Show which pods a changed profile would change.")
@files_option("YAML of new or changed profiles (and of namespaces and priority classes)", required=True)
@click.option(
    "--pods",
    "pod_files",
    multiple=True,
    metavar="FILE",
    help="Pods (and present profiles, namespaces, priority classes) from files instead of a cluster.",
)
@click.option(
    "--reconcile-by-default",
    is_flag=True,
    help="Assume that the profile controller runs with reconcileByDefault.",
)
@click.option(
    "--limit", default=10, show_default=True, help="How many workloads of each group to print (text)."
)
@config_option
@gates_option
@cluster_options
@output_option
@click.pass_context
def preview(
    this: click.Context,
    /,
    files: tuple[str, ...],
    pod_files: tuple[str, ...],
    reconcile_by_default: bool,
    limit: int,
    config: Path | None,
    feature_gates: str,
    output: Format,
    **access: Any,
) -> None:
    """Show which existing pods a new or changed profile would change, and how.

    The creation of each pod is simulated without and with the profile; the differences are shown by outcome
    and workload. For pending pods the profile controller's patches are shown too. Nothing is written.

    Exit code 3: admission would refuse some of the pods because of the profile.
    """
    from . import preview as previewing
    from .known import Access
    from .webhooks import Webhooks

    pods = _objects(pod_files) if pod_files else None
    if pods is not None and not any(item["kind"] == "Pod" for item in pods):
        raise Failure(f"{', '.join(pod_files)}: no pod")
    found = _run(
        files,
        previewing.preview(
            _objects(files),
            pods,
            webhooks=Webhooks.of(config, feature_gates),
            reconcile_by_default=reconcile_by_default,
            access=Access(**access),
        ),
    )
    emit(found.model_dump(mode="json"), output, lambda to: previewing.show(to, found, limit=limit))
    if found.refused:
        this.exit(FOUND)


@profile.command(short_help="Find profiles that conflict or break pods.")
@files_option("YAML of profiles, namespaces, priority classes")
@gates_option
@cluster_options
@output_option
@click.pass_context
def lint(
    this: click.Context, /, files: tuple[str, ...], feature_gates: str, output: Format, **access: Any
) -> None:
    """Find profiles that never match, that conflict with each other, or that break pods.

    Files alone (-f) are checked offline. Without files, or with a cluster named, the cluster's profiles,
    namespaces and priority classes count, and profiles in files replace those with the same names.

    Exit code 3: there are errors.
    """
    from . import lint as linting
    from .known import Access
    from .webhooks import Webhooks

    found = _run(
        files,
        linting.lint(
            documents(files) if files else None,
            gates=Webhooks.of(gates=feature_gates).gates,
            access=Access(**access),
        ),
    )
    emit(found.model_dump(mode="json"), output, lambda to: linting.show(to, found))
    if found.errors:
        this.exit(FOUND)


def _objects(files: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the objects in files, of which all but pods can be read. Raises Failure naming the file."""
    from koordpy.admission.explain import feed
    from koordpy.api.scheme import DecodeError
    from koordpy.cluster.cluster import Cluster

    found = []
    for file in files:
        for document in documents((file,)):
            try:
                feed(Cluster(), [document])
            except DecodeError as error:
                raise Failure(f"{file}: {error}") from None
            found.append(document)
    return found


def _run(files: tuple[str, ...], work: Coroutine[Any, Any, R]) -> R:
    """Run a command's work; what it lacks is reported with the names of the files that lack it."""
    from .known import NothingGiven

    try:
        return asyncio.run(work)
    except NothingGiven as error:
        raise Failure(f"{', '.join(files)}: {error}" if files else str(error)) from None


def _pod_name(text: str) -> tuple[str, str]:
    namespace, slash, name = text.partition("/")
    if not slash or not namespace or not name or "/" in name:
        raise Failure(f"got {text!r}, expected NAMESPACE/POD")
    return namespace, name
