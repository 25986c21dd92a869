from collections.abc import Callable

import httpx
from fastapi import FastAPI

from koordpy.http.routes import health
from koordpy.lib.health import Health


def problem(reason: str | None) -> Callable[[], str | None]:
    return lambda: reason


def client(**ready: str | None) -> httpx.AsyncClient:
    checks = Health()
    checks.ready |= {name.replace("_", "-"): problem(reason) for name, reason in ready.items()}
    app = FastAPI()
    app.include_router(health.router(checks))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test")


async def test_a_healthy_process_says_ok():
    answer = await client(pods=None).get("/readyz")
    assert (answer.status_code, answer.text) == (200, "ok")


async def test_a_failing_check_is_named_with_its_reason():
    answer = await client(informer_pods="not listed yet", listener=None).get("/readyz")
    assert answer.status_code == 503
    assert answer.text.splitlines() == [
        "[+]ping ok",
        "[-]informer-pods failed: not listed yet",
        "[+]listener ok",
        "readyz check failed",
    ]


async def test_liveness_does_not_depend_on_readiness():
    assert (await client(pods="not listed yet").get("/livez")).status_code == 200


async def test_verbose_lists_all_checks_and_exclude_leaves_some_out():
    answer = await client(pods="no").get("/readyz?verbose&exclude=pods")
    assert answer.status_code == 200
    assert "[+]pods excluded: ok" in answer.text


async def test_a_single_check_has_a_path_and_an_unknown_one_is_named():
    some = client(pods="no")
    assert (await some.get("/readyz/ping")).status_code == 200
    assert (await some.get("/readyz/pods")).status_code == 503
    assert "there are: ping, pods" in (await some.get("/readyz/nodes")).text
