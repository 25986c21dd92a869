"""When a pod that an extender refused is tried again."""

from koordpy.api.core import Pod
from tests.integration.scheduler.extender import Extender, refuse
from tests.integration.scheduler.stage import NAMESPACE, Stage, eventually


async def test_a_pod_that_an_extender_refused_is_tried_again_when_it_is_annotated(stage: Stage) -> None:
    await stage.add_node("n1")
    async with Extender(filter=refuse("taken")) as extender:
        await stage.start(extender.entry("filter"))
        await stage.add_pod("p")
        await stage.refusal("p")
        before = len(extender.asked("filter"))
        patch = {"metadata": {"annotations": {"example.com/look": "again"}}}
        await stage.client.patch(Pod, NAMESPACE, "p", patch)
        await eventually(lambda: len(extender.asked("filter")) > before)
