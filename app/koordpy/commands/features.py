"""`koordpy features`: what every installed feature needs from a cluster."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.markup import escape

from .options import output_option
from .output import Format, emit

if TYPE_CHECKING:
    from koordpy.features.feature import Feature


@click.command(short_help="Show what each installed feature needs.")
@click.option("--markdown", is_flag=True, help="Print the page docs/features.md.")
@output_option
def features(markdown: bool, output: Format) -> None:
    """Show what each installed feature needs: definitions, webhooks, extender verbs, rights, settings."""
    from koordpy.features.catalog import features as installed
    from koordpy.features.page import page

    if markdown:
        click.echo(page(), nl=False)
        return
    found = installed()
    emit([_plain(feature) for feature in found], output, lambda to: _show(to, found))


def _plain(feature: "Feature") -> dict[str, Any]:
    return {
        "part": feature.part.value,
        "name": feature.name,
        "onByDefault": feature.on_by_default,
        "definitions": list(feature.definitions),
        "follows": [f"{found.plural}.{found.group}".rstrip(".") for found in feature.follows],
        "rights": [str(right) for right in feature.rights],
        "webhooks": list(feature.webhooks),
        "extenderVerbs": list(feature.verbs),
        "featureGates": list(feature.gates),
        "elsewhere": list(feature.elsewhere),
        "inLightMode": feature.in_light_mode,
    }


def _show(to: Console, found: Sequence["Feature"]) -> None:
    part = None
    for feature in found:
        if feature.part is not part:
            part = feature.part
            to.print(f"[bold]{part.value}[/bold]")
        off = "" if feature.on_by_default else " [dim](off by default)[/dim]"
        to.print(f"  {escape(feature.name)}{off}")
        plain = _plain(feature)
        for name in ("definitions", "webhooks", "extenderVerbs", "featureGates", "rights", "elsewhere"):
            if plain[name]:
                to.print(f"    [dim]{name}:[/dim] {escape(', '.join(plain[name]))}")
