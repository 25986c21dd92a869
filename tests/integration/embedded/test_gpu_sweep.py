"""A sweep as an Indexed Job on the demo's control plane: submitted, followed, merged and removed.

No container runs there: a stand-in does what the arguments of each pod's container say.
"""

import asyncio
import base64
import gzip
import json

import pytest

from koordpy.api.core import ConfigMap
from koordpy.api.scheme import resource_of
from koordpy.scheduling.profiles.registry import installed
from koordpy.simulation.gpus import distributed, scenario, sweep
from koordpy.simulation.gpus.distributed import Sweep, SweepFailed
from tests.integration.embedded.living import Living, live, name_of
from tests.unit.simulation.gpus.policies import Emptiest, Equal

INDEX = "batch.kubernetes.io/job-completion-index"
TOLD = {
    "apiVersion": "simulation.koordpy.dev/v1alpha1",
    "kind": "GPUFillScenario",
    "name": "small",
    "nodes": "nodes.csv",
    "trace": "traces/pods.csv",
    "seeds": [1, 2, 3],
    "policies": [{"name": "Emptiest"}, {"name": "Equal"}],
}
OF = Sweep("koordpy-sweep-x", "default", "koordpy:1", 4)


@pytest.fixture
def file(tmp_path, monkeypatch):
    known = installed().including(Emptiest, Equal)
    monkeypatch.setattr(sweep, "installed", lambda: known)
    (tmp_path / "traces").mkdir()
    (tmp_path / "nodes.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\na,9000,99,4,T4\nb,9000,99,2,T4\n")
    (tmp_path / "traces" / "pods.csv").write_text(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,100,1,1,300\nq,100,1,2,1000\n"
    )
    path = tmp_path / "scenario.yaml"
    path.write_text(json.dumps(TOLD))
    return path


def objects(file, **annotations):
    made = distributed.manifests(OF, file, scenario.load(file), file.parent)
    [job] = [document for document in made if document["kind"] == "Job"]
    job["spec"]["template"]["metadata"] = {"annotations": annotations}
    return made


async def do_parts(cluster: Living, folder, skipped=()) -> None:
    """Do what the containers of the pods would, once for each pod."""
    seen = set()
    while True:
        for pod in cluster.pods():
            index = pod["metadata"].get("annotations", {}).get(INDEX)
            if index is None or name_of(pod) in seen or int(index) in skipped:
                continue
            seen.add(name_of(pod))
            [container] = pod["spec"]["containers"]
            arguments = dict(text.split("=", 1) for text in container["args"][1:])
            volume = cluster.one("configmaps", pod["spec"]["volumes"][0]["configMap"]["name"])
            there = folder / index
            there.mkdir(exist_ok=True)
            for name, content in volume["binaryData"].items():
                (there / name).write_bytes(base64.b64decode(content))
            assert arguments["--filename"] == "/scenario/scenario.yaml"
            tasks = sweep.tasks(scenario.load(there / "scenario.yaml"), there)
            text = arguments["--part"].replace("$(JOB_COMPLETION_INDEX)", index)
            number, mine = distributed.part_of(text, tasks)
            namespace, name = arguments["--sweep"].split("/")
            await distributed.write_part(cluster.client, namespace, name, number, sweep.run_all(mine))
        await asyncio.sleep(0.1)


def test_a_sweep_is_submitted_followed_merged_and_removed(file, tmp_path) -> None:
    tasks = sweep.tasks(scenario.load(file), file.parent)

    async def story(cluster: Living) -> None:
        working = asyncio.create_task(do_parts(cluster, tmp_path))
        seen: list[int] = []
        await distributed.submit(cluster.client, OF, objects(file, **{"kubelet.koordpy.dev/run-for": "9s"}))
        await distributed.follow(cluster.client, OF, lambda done, _: seen.append(done))
        assert (seen[0], seen[-1]) == (0, 4)
        assert await distributed.collect(cluster.client, OF, tasks) == sweep.run_all(tasks)
        await distributed.remove(cluster.client, OF)
        working.cancel()
        for plural in ("configmaps", "serviceaccounts", "roles", "rolebindings"):
            assert not [one for one in cluster.all(plural) if name_of(one).startswith(OF.name)]
        await cluster.until(lambda: not cluster.all("jobs") and not cluster.pods())

    live(story)


def test_a_missing_part_is_told(file, tmp_path) -> None:
    tasks = sweep.tasks(scenario.load(file), file.parent)

    async def story(cluster: Living) -> None:
        working = asyncio.create_task(do_parts(cluster, tmp_path, skipped=(2,)))
        await distributed.submit(cluster.client, OF, objects(file, **{"kubelet.koordpy.dev/run-for": "9s"}))
        await distributed.follow(cluster.client, OF, lambda *_: None)
        with pytest.raises(SweepFailed, match="pod 2 of default/koordpy-sweep-x has written no ConfigMap"):
            await distributed.collect(cluster.client, OF, tasks)
        working.cancel()

    live(story)


def packed(raw: bytes) -> dict[str, str]:
    return {"runs.json.gz": base64.b64encode(raw).decode()}


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        ({}, "expected runs.json.gz"),
        (packed(b"[]"), "incorrect header"),
        (packed(gzip.compress(b"[1]")), "Expected `object`"),
        (packed(gzip.compress(bytes(65 << 20))), "at most 67108864 bytes"),
    ],
)
def test_a_part_that_others_wrote_is_told(file, data, complaint) -> None:
    tasks = sweep.tasks(scenario.load(file), file.parent)

    async def story(cluster: Living) -> None:
        part = {"metadata": {"name": f"{OF.name}-0", "namespace": OF.namespace}, "binaryData": data}
        await cluster.client.create_raw(resource_of(ConfigMap), OF.namespace, part)
        with pytest.raises(SweepFailed, match=f"ConfigMap default/koordpy-sweep-x-0: .*{complaint}"):
            await distributed.collect(cluster.client, OF, tasks)

    live(story)


def test_a_failed_job_is_told_with_where_to_look(file) -> None:
    async def story(cluster: Living) -> None:
        ends = {"kubelet.koordpy.dev/run-for": "1s", "kubelet.koordpy.dev/exit-code": "1"}
        await distributed.submit(cluster.client, OF, objects(file, **ends))
        with pytest.raises(SweepFailed, match="kubectl logs -n default -l job-name=koordpy-sweep-x"):
            await distributed.follow(cluster.client, OF, lambda *_: None)

    live(story)


def test_parts_are_checked() -> None:
    for wrong in ("4/4", "-1/4", "1", "a/b", ""):
        with pytest.raises(ValueError, match="expected INDEX/PARTS"):
            distributed.part_of(wrong, [])


def test_what_stays_after_a_failure_is_found_by_its_label(file) -> None:
    created = objects(file)
    assert {document["metadata"]["labels"][distributed.LABEL] for document in created} == {OF.name}
    kinds = OF.removal.split()[2].split(",")
    assert set(kinds) == {document["kind"].lower() for document in created}
    assert OF.removal.endswith(f"-n default -l {distributed.LABEL}={OF.name}")
