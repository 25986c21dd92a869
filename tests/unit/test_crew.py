from typing import Any

import pytest

from koordpy import settings
from koordpy.admission.serving.config import Mode
from koordpy.crew import serve, settings_of
from koordpy.service import ServiceError


def loaded(**admission: Any) -> settings.Settings:
    return settings.load(None, {"doors": ["admission"], "workers": 3, "admission": admission})


def test_the_first_worker_does_what_a_single_process_does():
    made = loaded(certificates={"mode": "secret"})
    assert settings_of(made, 0) is made


@pytest.mark.parametrize("mode", ["secret", "fs"])
def test_the_others_serve_the_certificate_that_the_first_makes(mode):
    made = loaded(certificates={"mode": mode, "serviceName": "s"})
    others = settings_of(made, 2).admission
    assert others.certificates.mode is Mode.GIVEN
    assert others.certificates.dns == made.admission.certificates.dns
    assert others.certificate_folder == made.admission.certificate_folder
    assert not others.registers


@pytest.mark.parametrize("mode", ["local", "given"])
def test_a_certificate_that_is_in_the_folder_anyway_is_served_by_all_alike(mode):
    made = loaded(certDir="/certificates", certificates={"mode": mode}, registration={"enabled": True})
    others = settings_of(made, 1).admission
    assert others.certificates == made.admission.certificates
    assert others.certificate_folder == made.admission.certificate_folder
    assert not others.registers


def test_the_extender_door_is_refused_by_name_and_reason():
    made = settings.load(None, {"workers": 2})

    def work(*_: object) -> None:
        raise AssertionError("a worker was started")

    with pytest.raises(ServiceError, match=r"2 processes cannot open the extender door: .* in the memory"):
        serve(made, work)
