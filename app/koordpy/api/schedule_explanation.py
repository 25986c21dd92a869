"""ScheduleExplanation: requests, and contains, the explanation why a pod cannot be scheduled.

The answer is only written, so it is not a struct here: `koordpy.scheduling.explain.explanations` creates the
document. Source: Koordinator, `apis/scheduling/v1alpha1/schedule_explanation.go`.
"""

import msgspec

from .meta import KubeObject, Struct


class ScheduleExplanationSpec(Struct):
    """The question: `question_object_key` is namespace and name of a pod."""

    question_object_key: str = ""


class ScheduleExplanation(KubeObject):
    """A question about a pod or a gang, and the answer."""

    spec: ScheduleExplanationSpec = msgspec.field(default_factory=ScheduleExplanationSpec)
