import httpx
import pytest
from fastapi import FastAPI

from koordpy.admission import metrics as admission_metrics
from koordpy.api import labels
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


async def test_caches_are_reported_by_name_and_in_total() -> None:
    labels.key_error("example.com/reported")
    application = FastAPI()
    application.include_router(metrics.router())
    transport = httpx.ASGITransport(app=application)
    async with httpx.AsyncClient(transport=transport, base_url="http://debug") as client:
        lines = (await client.get("/metrics")).text.splitlines()
    values = dict(line.rsplit(" ", 1) for line in lines if line.startswith("koordpy_cache"))
    assert float(values['koordpy_cache_bytes{cache="label_keys"}']) > 0
    assert float(values['koordpy_cache_entries{cache="label_keys"}']) > 0
    assert float(values['koordpy_cache_limit_bytes{cache="label_keys"}']) == 2 << 20
    each = [float(value) for name, value in values.items() if name.startswith("koordpy_cache_bytes{")]
    assert float(values["koordpy_caches_bytes"]) == sum(each)
