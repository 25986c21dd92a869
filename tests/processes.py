"""Whole processes for tests, and the parts of them that tests inspect."""

from typing import Any

from koordpy import settings
from koordpy.admission.serving.controller import Controller
from koordpy.admission.serving.life import WebhookLife
from koordpy.compose.parts.admission import AdmissionPart
from koordpy.compose.parts.extender import ExtenderPart
from koordpy.compose.process import Process
from koordpy.scheduling.extender.extender import Extender


def serve_process(found: settings.Settings, **options: Any) -> Process:
    """Return what `koordpy serve` runs with these settings."""
    return Process(found, found.parts or settings.SERVING, **options)


def worker_process(found: settings.Settings, *parts: str, **options: Any) -> Process:
    """Return what `koordpy worker` (or `koordpy agent`) runs with these parts."""
    return Process(found, parts if parts == ("agent",) else (*parts, "debug"), **options)


def extender_of(process: Process) -> Extender:
    return process.part(ExtenderPart).extender


def leads(process: Process) -> bool:
    """Return whether a process is the one of several extenders that works for all."""
    return process.part(ExtenderPart).election.is_leading


def certificates_of(process: Process) -> Controller:
    """Return what keeps a process's certificate and the webhook configurations right."""
    found = webhooks_of(process).controller
    assert found is not None
    return found


def webhooks_of(process: Process) -> WebhookLife:
    found = process.part(AdmissionPart).life
    assert found is not None
    return found
