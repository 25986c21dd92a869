"""The demo, as run from a fresh clone of the repository."""

import asyncio
import io
import re
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from rich.console import Console

from koordpy.api.koordinator import NodeMetric
from koordpy.commands import demo as story
from koordpy.commands.demo import Demo
from tests.integration.service.stage import until


async def test_its_nodes_keep_reporting_and_it_prints_what_to_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    to = io.StringIO()
    async with AsyncExitStack() as stack:
        demo = Demo(Console(file=to, width=200), 8, tmp_path, stack)
        await demo.tell()
        demo.invite()
        metrics = demo.process.cluster.store(NodeMetric)
        at_first = {metric.metadata.name: metric.status.update_time for metric in metrics}
        monkeypatch.setattr(story, "REPORT_SECONDS", 0.1)
        stopping = asyncio.Event()
        going_on = asyncio.create_task(demo.keep_up(stopping))
        await until(lambda: all(m.status.update_time != at_first[m.metadata.name] for m in metrics))
        assert all(metric.status.node_metric is not None for metric in metrics)
        stopping.set()
        await going_on
    told = to.getvalue()
    assert re.search(r"koordpy why \w+/\S+ --history --debug-server http://127.0.0.1:\d+\n", told), told
    assert re.search(r"koordpy whatif -f - --count 100 --debug-server http://127.0.0.1:\d+\n", told), told
