"""A profile that comes after its pods, on kube-apiserver."""

from pathlib import Path

from tests.e2e.controlplane.plane import ControlPlane
from tests.integration.apiserver.rest import Rest
from tests.stories import profiles


def test_a_profile_that_comes_late_is_previewed_linted_and_applied(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    control_plane.install_crds()
    rest = Rest(control_plane.url, token=control_plane.token, tls=control_plane.ssl_context())
    with rest.http:
        profiles.tell(rest, ["--kubeconfig", str(control_plane.kubeconfig)], tmp_path)
