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


class DeschedulingForecast(OutputModel):
    """The last of the hypothetical rounds; `by_node` counts the pods that would leave each node."""

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
    would = [(item.node, item.plugin) for item in current.evictions if item.outcome is Outcome.DRY_RUN]
    notes = list(config.without_effect)
    notes += [f"the API server serves no {kind}: there are none in this round" for kind in missing]
    return DeschedulingForecast(
        rounds=rounds,
        pods=sum(
            count.pods for run in current.runs for count in run.attempts if count.outcome is Outcome.DRY_RUN
        ),
        by_node=dict(Counter(node for node, _ in would).most_common()),
        by_plugin=dict(Counter(plugin for _, plugin in would).most_common()),
        notes=notes,
        round=current,
    )
