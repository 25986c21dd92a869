"""The embedded scheduler beside a service, asking it as its configuration says."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import yaml

from koordpy import data
from koordpy.api.core import Pod
from koordpy.embedded.scheduler import Scheduler
from koordpy.scheduling.profiles import config
from tests.integration.service.stage import Stage

Document = dict[str, Any]


def shipped(stage: Stage, name: str = "kube-scheduler-config.yaml") -> Document:
    """Return a shipped configuration of kube-scheduler, with the service's address in it."""
    document: Document = yaml.safe_load(data.deploy("scheduler", name).read_text())
    for entry in document["extenders"]:
        entry["urlPrefix"] = f"{stage.url('extender')}/extender"
    return document


@asynccontextmanager
async def scheduling(stage: Stage, document: Document) -> AsyncIterator[Scheduler]:
    """Run the scheduler on the service's cluster."""
    scheduler = Scheduler(config.read(document), stage.client)
    await scheduler.start()
    try:
        yield scheduler
    finally:
        await scheduler.stop()


def node_of(stage: Stage, name: str) -> str:
    """Return where a pod is, as the service knows it; empty while it is nowhere."""
    pod = stage.process.cluster.store(Pod).get("default", name)
    return "" if pod is None else pod.spec.node_name
