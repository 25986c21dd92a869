from koordpy.api.pod_migration_job import PodMigrationJob
from koordpy.api.scheme import decode, encode, resource_of

WEB = {"namespace": "default", "name": "web-0", "uid": "5a"}


def job(phase: str = "", **spec: object) -> PodMigrationJob:
    return decode(PodMigrationJob, {"metadata": {"name": "j"}, "spec": spec, "status": {"phase": phase}})


def test_a_job_is_cluster_scoped_with_a_status_subresource() -> None:
    assert resource_of(PodMigrationJob).path(name="j", subresource="status") == (
        "/apis/scheduling.koordinator.sh/v1alpha1/podmigrationjobs/j/status"
    )


def test_an_empty_phase_is_pending_and_aborted_is_an_end() -> None:
    assert [job(phase).is_pending for phase in ("", "Pending", "Running")] == [True, True, False]
    assert [job(phase).is_unfinished for phase in ("", "Pending", "Running")] == [True] * 3
    assert [job(phase).is_unfinished for phase in ("Succeeded", "Failed", "Aborted")] == [False] * 3


def test_a_job_knows_its_pod_with_and_without_a_reference() -> None:
    assert (job(podRef=WEB).pod_key, job(podRef=WEB).pod_uid) == ("default/web-0", "5a")
    assert (job().pod_key, job().pod_uid) == ("/", "")


def test_the_template_of_the_reservation_is_not_kept() -> None:
    options = {"reservationRef": {"name": "r"}, "template": {"spec": {"anything": [1, 2]}}}
    assert b"anything" not in encode(job(podRef=WEB, reservationOptions=options))
