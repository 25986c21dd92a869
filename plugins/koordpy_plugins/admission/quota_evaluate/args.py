"""Retries of an evaluation's writes."""

from koordpy.api.config_model import Duration
from koordpy.api.plugin import PluginArgs


class EvaluateQuotaArgs(PluginArgs):
    """The flags `--quota-update-...` of koord-manager, without that prefix.

    `max_retries` below 3 counts as 3. `retry_jitter` is the longest pause after a conflict, the shortest is
    half of it; the sum of the pauses of one batch is at most `max_total_jitter`. With
    `conflict_fresh_get` the quota is read from the API server after a conflict, not from the watch.
    """

    max_retries: int = 3
    retry_jitter: Duration = 0
    max_total_jitter: Duration = 1_000_000_000
    conflict_fresh_get: bool = False
