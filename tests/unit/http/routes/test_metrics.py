import httpx
import pytest
from fastapi import FastAPI

from koordpy.admission import metrics as admission_metrics
from koordpy.http.routes import metrics

KOORDINATORS = "koord_manager_webhook_webhook_duration_milliseconds"
RUNTIMES = "controller_runtime_webhook_panics_total"


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("/metrics", {KOORDINATORS, RUNTIMES}),
        ("/all-metrics", {KOORDINATORS, RUNTIMES}),
        ("/internal-metrics", {KOORDINATORS}),
        ("/external-metrics", set()),
    ],
)
async def test_paths_have_their_part_of_the_metrics(path: str, names: set[str]) -> None:
    assert admission_metrics.PANICS is not None  # it is registered
    application = FastAPI()
    application.include_router(metrics.router())
    transport = httpx.ASGITransport(app=application)
    async with httpx.AsyncClient(transport=transport, base_url="http://debug") as client:
        text = (await client.get(path)).text
    assert {name for name in (KOORDINATORS, RUNTIMES) if f"# HELP {name} " in text} == names
