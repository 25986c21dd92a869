"""Which requests the listeners refuse because web pages may have sent them."""

from pathlib import Path

import pytest

from tests.integration.service.stage import Stage, serving

PAGES = ({"host": "evil.example"}, {"origin": "http://evil.example", "content-type": "text/plain"})


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("listener", ["debug", "extender"])
async def test_web_pages_are_refused_on_loopback(stage: Stage, listener: str, page: dict[str, str]) -> None:
    url = stage.process.listeners[listener].url
    for path in ("/readyz", "/metrics", "/extender/filter", "/extender/%66ilter", "/nowhere"):
        for method in ("GET", "POST"):
            answer = await stage.http.request(method, url + path, headers=page, content=b"{}")
            assert answer.status_code == 403, (method, path)


async def test_a_configured_host_is_accepted(tmp_path: Path) -> None:
    async with serving(tmp_path, parts=["debug"], debug={"allowedHosts": ["debug.example"]}) as stage:
        assert (await stage.get("/livez", headers={"host": "debug.example:1"})).status_code == 200


async def test_webhooks_are_called_by_any_host_but_not_by_web_pages(stage: Stage) -> None:
    url = stage.process.listeners["admission"].url + "/mutate-pod"
    calls = {"host": "koordinator-webhook.koordinator-system.svc", "content-type": "application/json"}
    assert (await stage.http.post(url, headers=calls, content=b"{}")).status_code == 200
    page = {"origin": "https://evil.example", **calls}
    assert (await stage.http.post(url, headers=page, content=b"{}")).status_code == 403
