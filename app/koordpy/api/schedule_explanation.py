"""ScheduleExplanation: asks why a pod cannot be scheduled, and carries the answer.

The answer is only ever written, so it is no struct here: `koordpy.scheduling.explain.explanations` makes
the document. Source: Koordinator, `apis/scheduling/v1alpha1/schedule_explanation.go`.
"""

import msgspec

from .meta import KubeObject, Struct


class ScheduleExplanationSpec(Struct):
    """What is asked: `question_object_key` is namespace and name of a pod."""

    question_object_key: str = ""


class ScheduleExplanation(KubeObject):
    """A question about a pod or a gang, and the answer."""

    spec: ScheduleExplanationSpec = msgspec.field(default_factory=ScheduleExplanationSpec)
