"""Koordinator's feature gates of the webhooks, and koordpy's own.

Names, defaults and stages are Koordinator's, so that the `--feature-gates` of a koord-manager keep their
meaning. Source: Koordinator, `pkg/features/features.go`.
"""

from collections.abc import Mapping

from koordpy.lib.feature_gates import FeatureGates, FeatureSpec, Stage

_ON = FeatureSpec(True, Stage.BETA)
_OFF = FeatureSpec(False, Stage.ALPHA)

SPECS: dict[str, FeatureSpec] = {
    # which paths are served
    "WebhookFramework": _ON,
    "PodMutatingWebhook": _ON,
    "PodValidatingWebhook": _ON,
    "ElasticMutatingWebhook": _ON,
    "ElasticValidatingWebhook": _ON,
    "NodeMutatingWebhook": _OFF,
    "NodeValidatingWebhook": _OFF,
    "ConfigMapValidatingWebhook": _OFF,
    "ReservationMutatingWebhook": _OFF,
    "BindingAdmissionWebhook": _OFF,
    # pods
    "ColocationProfileSkipMutatingResources": _OFF,
    "ColocationProfileSkipValidatingPriority": _OFF,
    "DisableExtendedResourceSpec": _OFF,
    "DisableDeviceResourceSpec": _OFF,
    "MultiQuotaTree": _OFF,
    "ValidatePodDeviceResource": _OFF,
    "EnablePodEnhancedValidator": _OFF,
    # koordpy's own
    "PodDeviceEnvironment": _OFF,
    "ReservationDeviceResourceSpec": _OFF,
    "ProtectPodAllocation": _OFF,
    # quotas
    "EnableQuotaAdmission": _OFF,
    "EnableQuotaAdmissionOnUpdate": _OFF,
    "ElasticQuotaEvaluationTransformPod": _OFF,
    "ReplaceResourcesTransformer": _OFF,
    "SupportParentQuotaSubmitPod": _OFF,
    "DisableDefaultQuota": _OFF,
    "ElasticQuotaGuaranteeUsage": _OFF,
    "ElasticQuotaEnableUpdateResourceKey": _OFF,
}


def feature_gates(settings: Mapping[str, bool] | None = None) -> FeatureGates:
    """Return Koordinator's webhook gates at their defaults, overridden by `settings`.

    Raises koordpy.lib.feature_gates.FeatureGateError.
    """
    return FeatureGates(SPECS, settings)
