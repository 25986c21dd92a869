"""`koordpy colocate`: what colocation gives on a node, or would give on a recorded cluster."""

import click

from .colocate_estimate import estimate
from .colocate_explain import explain


@click.group(short_help="What nodes offer to pods of lower priority, and why.")
def colocate() -> None:
    """Show what nodes offer to batch and mid pods, or what they would offer."""


colocate.add_command(explain)
colocate.add_command(estimate)
