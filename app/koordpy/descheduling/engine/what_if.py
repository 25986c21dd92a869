"""What would a round of a configuration do to the live cluster? A round in dry run, on a copy of the view.

Plugins, their states and the limits are the configuration's own and start fresh; the descheduler that runs in
this process is not affected. There is no client: nothing can be written. Metrics do not count the round.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Final

from koordpy.api.catalogue import Catalogue
from koordpy.api.output_model import OutputModel
from koordpy.cluster import snapshot
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.descheduling.config.configuration import DeschedulerConfiguration
from koordpy.descheduling.explain.decisions import Outcome, Round
from koordpy.descheduling.interface import Plugin
from koordpy.descheduling.proof.trial import TrialScheduler
from koordpy.lib.feature_gates import FeatureGates

from .descheduler import Descheduler

LONGEST: Final = 60.0
"""The time limit of a what-if, in seconds."""

MOST_ROUNDS: Final = 100

MOST_NAMED: Final = 20
"""Pods chosen several times that are named; the rest is counted."""


class DeschedulingForecast(OutputModel):
    """The last of the hypothetical rounds; `by_node` counts the pods that would leave each node.

    A pod that several plugins would evict is counted once in `pods` and `by_node`, and by each plugin in
    `by_plugin`; `notes` name it.
    """

    rounds: int
    pods: int
    by_node: dict[str, int]
    by_plugin: dict[str, int]
    notes: list[str]
    round: Round


async def forecast(
    config: DeschedulerConfiguration,
    catalogue: Catalogue[Plugin],
    live: Cluster,
    client: Client | None,
    *,
    gates: FeatureGates,
    trials: Callable[[Cluster], TrialScheduler] | None = None,
    rounds: int = 1,
) -> DeschedulingForecast:
    """Run rounds on the same copy of the cluster, and return the last one.

    Several rounds are for plugins that act on what lasts, as LowNodeLoad does with `anomalyCondition`.
    `client` only lists types that `live` does not follow; `trials` makes the trial scheduling for profiles
    that prove evictions. Raises ConfigError, ApiError, ConnectionFailed; TimeoutError after the time limit.
    """
    copy = Cluster(live.clock)
    try:
        async with asyncio.timeout(LONGEST):
            target = Descheduler(
                config.model_copy(update={"dry_run": True}),
                catalogue,
                copy,
                gates=gates,
                trials=trials(copy) if trials is not None and config.proves else None,
                hypothetical=True,
            )
            missing = await snapshot.fill(copy, live, client)
            for _ in range(rounds):
                current = await target.run_once()
    finally:
        copy.close()
    would = [item for item in current.evictions if item.outcome is Outcome.DRY_RUN]
    node_of = {item.pod: item.node for item in would}
    notes = [*config.without_effect, *_taken_again(current)]
    notes += [f"the API server serves no {kind}: there are none in this round" for kind in missing]
    return DeschedulingForecast(
        rounds=rounds,
        pods=sum(
            count.pods for run in current.runs for count in run.attempts if count.outcome is Outcome.DRY_RUN
        )
        - (len(would) - len(node_of)),
        by_node=dict(Counter(node_of.values()).most_common()),
        by_plugin=dict(Counter(item.plugin for item in would).most_common()),
        notes=notes,
        round=current,
    )


def _taken_again(current: Round) -> list[str]:
    """Return which pods several runs would evict: in a dry run an evicted pod is still there."""
    by: dict[str, list[str]] = {}
    for run in current.runs:
        for item in run.evictions:
            if item.outcome is Outcome.DRY_RUN:
                by.setdefault(item.pod, []).append(f"{run.plugin} of {run.profile}")
    several = [(pod, runs) for pod, runs in by.items() if len(runs) > 1]
    notes = [
        f"{pod} is chosen by {' and '.join(runs)}; it is counted once" for pod, runs in several[:MOST_NAMED]
    ]
    if len(several) > MOST_NAMED:
        notes.append(f"{len(several) - MOST_NAMED} more pods are chosen several times, and counted once")
    return notes
