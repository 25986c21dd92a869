"""Options and arguments that several commands share, and errors that users can fix."""

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click

from .output import FORMATS

F = TypeVar("F", bound=Callable[..., Any])

output_option = click.option(
    "--output", "-o", "output", type=click.Choice(FORMATS), default="text", help="How to print the result."
)
gates_option = click.option(
    "--feature-gates", default="", help="Feature gates to set, such as A=true,B=false."
)
namespace_option = click.option(
    "--namespace", "-n", default="default", show_default=True, help="The namespace of pods that name none."
)


class Failure(click.ClickException):
    """An error that the user can fix."""


def cluster_options(command: F) -> F:
    """Add the options that select the API server."""
    for option in (
        click.option("--context", "context", help="Context of the kubeconfig."),
        click.option("--kubeconfig", help="Kubeconfig file of the cluster."),
        click.option("--server", help="URL of the API server."),
    ):
        command = option(command)
    return command


def files_option(what: str, *, required: bool = False) -> Callable[[F], F]:
    """Return the option `-f`, which may be given several times."""
    return click.option(
        "-f", "--filename", "files", multiple=True, required=required, help=f"{what}; - is stdin."
    )


def documents(files: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the Kubernetes objects in files; the items of a List count each. Raises Failure."""
    return [document for file in files for document in _documents(file)]


def _documents(file: str) -> list[dict[str, Any]]:
    from koordpy.lib.text_documents import DocumentError

    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
        found = [document for document in _decoded(text) if document is not None]
    except OSError as error:
        raise Failure(f"{file}: {error.strerror}") from None
    except (DocumentError, UnicodeDecodeError) as error:
        raise Failure(f"{file}: not YAML: {error}") from None
    items: list[dict[str, Any]] = []
    for document in found:
        listed = document.get("items") if isinstance(document, dict) else None
        is_list = isinstance(listed, list) and str(document.get("kind")).endswith("List")
        items += (_object(item, file) for item in (listed if is_list and listed else (document,)))
    return items


def _object(document: Any, file: str) -> dict[str, Any]:
    """Return a document as a JSON object if it is a Kubernetes object. Raises Failure."""
    if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
        raise Failure(f"{file}: got {str(document)[:60]!r}, expected Kubernetes objects with a kind")
    if not isinstance(document.get("metadata") or {}, dict):
        given = str(document["metadata"])[:60]
        raise Failure(f"{file}: {document['kind']}: metadata: got {given!r}, expected an object")
    return document


def _decoded(text: str) -> Iterable[Any]:
    """Return the documents in a text; JSON is parsed as JSON, because YAML parsers are slow."""
    from koordpy.lib.text_documents import DocumentError, read_all_yaml, read_json

    if text.startswith("{"):
        try:
            return [read_json(text)]
        except DocumentError:
            pass
    return read_all_yaml(text)
