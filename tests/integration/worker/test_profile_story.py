"""A profile that comes after its pods, on the embedded API server."""

from pathlib import Path

from koordpy.embedded.apiserver import ApiServer
from tests.integration.apiserver.rest import Rest
from tests.integration.service.stage import CRDS
from tests.stories import profiles


def test_a_profile_that_comes_late_is_previewed_linted_and_applied(tmp_path: Path) -> None:
    with ApiServer.in_thread(crds=CRDS) as server:
        rest = Rest(server.url)
        with rest.http:
            profiles.tell(rest, ["--server", server.url], tmp_path)
