"""Logs what `/debug/flags` enables: tables of best nodes, rejections, and diagnoses of unschedulable pods.

Diagnoses go through a bounded queue: if they arrive faster than they are written, some are dropped. With
`diagnosis_blocking` they are written immediately. Source: Koordinator, `pkg/scheduler/frameworkext/debug.go`
and `schedule_diagnosis.go`.
"""

import asyncio
import logging
from collections.abc import Callable
from itertools import islice
from typing import Final

import msgspec

from koordpy.api.reserve_pod import is_reserve_pod, reservation_name_of
from koordpy.lib.log_format import DOCUMENT, LINES
from koordpy.scheduling.interface.debug_flags import DebugFlags
from koordpy.scheduling.interface.diagnosis import Diagnosis, existing_diagnosis
from koordpy.scheduling.interface.outcome import FilterOutcome, Scores

from .decisions import Decision, Step

log = logging.getLogger(__name__)

Processor = Callable[[Diagnosis], None]
"""Called with every diagnosis that is written."""

_NAMES_LOGGED: Final = 50
_REASONS_LOGGED: Final = 20


class AttemptLog:
    """Observes attempts and logs as the flags say. `queue_size` bounds the pending diagnoses."""

    def __init__(self, flags: DebugFlags, *, queue_size: int = 1000, workers: int = 10) -> None:
        self.flags = flags
        self._queue_size, self._workers = queue_size, workers
        self._queue: asyncio.Queue[Diagnosis] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self.processors: dict[str, Processor] = {}

    def __call__(self, decision: Decision, step: Step) -> None:
        """Process a step of an attempt."""
        flags = self.flags
        if step == "scored" and flags.top_scores > 0 and decision.scores is not None:
            log_scores(flags.top_scores, decision.pod.metadata.key, decision.scores)
        elif step == "filtered" and flags.filter_failures and decision.outcome is not None:
            _log_failures(decision.pod.metadata.key, decision.outcome)
        elif step == "unschedulable" and flags.diagnosis:
            self.dump(diagnose(decision))

    # --- diagnoses -------------------------------------------------------------------------------

    def dump(self, diagnosis: Diagnosis) -> str:
        """Write a diagnosis, now or later; return the text if it is written now."""
        if self.flags.diagnosis_blocking:
            return self._write(diagnosis)
        if self._queue is None:
            self._queue = asyncio.Queue(self._queue_size)
            self._tasks = [asyncio.ensure_future(self._work(self._queue)) for _ in range(self._workers)]
        try:
            self._queue.put_nowait(diagnosis)
        except asyncio.QueueFull:
            log.warning("Diagnosis queue is full, dropping diagnosis for %s", diagnosis.questioned_key)
        return ""

    async def close(self) -> None:
        """Stop the workers."""
        tasks, self._tasks, self._queue = self._tasks, [], None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _work(self, queue: asyncio.Queue[Diagnosis]) -> None:
        while True:
            self._write(await queue.get())
            await asyncio.sleep(0)  # scheduling has priority

    def _write(self, diagnosis: Diagnosis) -> str:
        text = msgspec.json.encode(diagnosis.document(), enc_hook=str).decode()
        meta = None if diagnosis.target_pod is None else diagnosis.target_pod.metadata
        pod = "//" if meta is None else f"{meta.key}/{meta.uid}"
        log.info(
            "dump diagnosis for %s, targetPod: %s: $%s", diagnosis.questioned_key, pod, text, extra=DOCUMENT
        )
        for name, processor in self.processors.items():
            try:
                processor(diagnosis)
            except Exception:
                log.exception("diagnosis processor %s broke", name)
        return text


def diagnose(decision: Decision) -> Diagnosis:
    """Return the diagnosis of an attempt that found no node, with the additions of plugins."""
    pod, state = decision.pod, decision.state
    found = (existing_diagnosis(state) if state is not None else None) or Diagnosis()
    found.timestamp, found.target_pod = decision.started, pod
    found.questioned_key = reservation_name_of(pod) if is_reserve_pod(pod) else pod.metadata.key
    found.nominated_node = pod.status.nominated_node_name
    if decision.outcome is not None:
        found.record(decision.outcome)
    return found


# --- tables ----------------------------------------------------------------------------------------


def log_scores(top: int, key: str, scores: Scores) -> None:
    """Log the best nodes as a table."""
    if not len(scores.nodes):
        return
    plugins = " ".join(scores.by_plugin)
    log.info(
        "Top%d scores for Pod: %s, feasibleNodes: %d, plugins:[%s]\n%s",
        top,
        key,
        len(scores.nodes),
        plugins,
        score_table(top, key, scores),
        extra=LINES,
    )


def score_table(top: int, key: str, scores: Scores) -> str:
    """Return the best nodes as a Markdown table, with weighted scores."""
    names = scores.nodes.names
    rows = [["#", "Pod", "Node", "Score", *scores.by_plugin]]
    for place, index in enumerate(scores.top(top)):
        amounts = (scores.total, *scores.by_plugin.values())
        rows.append([str(place), key, names[index], *(str(int(amount[index])) for amount in amounts)])
    header, *body = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join([header, "| --- | --- | --- |" + " ---:|" * (1 + len(scores.by_plugin)), *body])


def _log_failures(key: str, outcome: FilterOutcome) -> None:
    if not outcome.prefilter.is_success:
        status = outcome.prefilter
        log.info(
            "Failed to prefilter for Pod %r, failedPlugin: %s, reason: %s", key, status.plugin, status.message
        )
        return
    for status, names in islice(outcome.failed(), _REASONS_LOGGED):
        more = "" if len(names) <= _NAMES_LOGGED else f" and {len(names) - _NAMES_LOGGED} more"
        log.info(
            "Failed to filter for Pod %r on %d Nodes, failedPlugin: %s, reason: %s: %s%s",
            key,
            len(names),
            status.plugin,
            status.message,
            ", ".join(names[:_NAMES_LOGGED]),
            more,
        )
