"""Koordinator's protocol names: labels, annotations and resources (apis/extension)."""

# --- labels --------------------------------------------------------------------------------------
LABEL_POD_QOS = "koordinator.sh/qosClass"
LABEL_POD_PRIORITY = "koordinator.sh/priority"
LABEL_POD_PRIORITY_CLASS = "koordinator.sh/priority-class"
LABEL_POD_MUTATING_UPDATE = "pod.koordinator.sh/mutating-update"
LABEL_SKIP_ENHANCED_VALIDATION = "pod.koordinator.sh/skip-enhanced-validation"
LABEL_BINDING_ADMISSION_BYPASS = "koordinator.sh/binding-admission-bypass"
LABEL_SCHEDULER_NAME = "scheduling.koordinator.sh/scheduler-name"
LABEL_QUOTA_NAME = "quota.scheduling.koordinator.sh/name"
LABEL_QUOTA_PARENT = "quota.scheduling.koordinator.sh/parent"
LABEL_QUOTA_IS_PARENT = "quota.scheduling.koordinator.sh/is-parent"
LABEL_QUOTA_IS_ROOT = "quota.scheduling.koordinator.sh/is-root"
LABEL_QUOTA_ALLOW_FORCE_UPDATE = "quota.scheduling.koordinator.sh/allow-force-update"
LABEL_QUOTA_ALLOW_LENT_RESOURCE = "quota.scheduling.koordinator.sh/allow-lent-resource"
LABEL_QUOTA_PREEMPTIBLE = "quota.scheduling.koordinator.sh/preemptible"
LABEL_QUOTA_TREE_ID = "quota.scheduling.koordinator.sh/tree-id"
LABEL_CONTROLLER_MANAGED = "config.koordinator.sh/controller-managed"

# --- annotations ---------------------------------------------------------------------------------
ANNOTATION_EXTENDED_RESOURCE_SPEC = "node.koordinator.sh/extended-resource-spec"
ANNOTATION_SKIP_UPDATE_RESOURCES = "config.koordinator.sh/skip-update-resources"
ANNOTATION_NODE_RAW_ALLOCATABLE = "node.koordinator.sh/raw-allocatable"
ANNOTATION_NODE_RESOURCE_AMPLIFICATION_RATIO = "node.koordinator.sh/resource-amplification-ratio"
ANNOTATION_NODE_RESERVATION = "node.koordinator.sh/reservation"
ANNOTATION_CUSTOM_USAGE_THRESHOLDS = "scheduling.koordinator.sh/usage-thresholds"
ANNOTATION_RESOURCE_STATUS = "scheduling.koordinator.sh/resource-status"
ANNOTATION_NODE_SYSTEM_QOS_RESOURCE = "node.koordinator.sh/system-qos-resource"
ANNOTATION_KUBELET_CPU_MANAGER_POLICY = "kubelet.koordinator.sh/cpu-manager-policy"
ANNOTATION_LOAD_ESTIMATED_SCALING_FACTORS = "scheduling.koordinator.sh/load-estimated-scaling-factors"
ANNOTATION_LOAD_ESTIMATED_SECONDS_AFTER_POD_SCHEDULED = (
    "scheduling.koordinator.sh/load-estimated-seconds-after-pod-scheduled"
)
ANNOTATION_LOAD_ESTIMATED_SECONDS_AFTER_INITIALIZED = (
    "scheduling.koordinator.sh/load-estimated-seconds-after-initialized"
)
ANNOTATION_QUOTA_GUARANTEED = "quota.scheduling.koordinator.sh/guaranteed"
ANNOTATION_QUOTA_MAX_STRICT_CHECK_RESOURCE_KEYS = (
    "quota.scheduling.koordinator.sh/max-strict-check-resource-keys"
)
ANNOTATION_QUOTA_SHARED_WEIGHT = "quota.scheduling.koordinator.sh/shared-weight"
ANNOTATION_QUOTA_NAMESPACES = "quota.scheduling.koordinator.sh/namespaces"
ANNOTATION_QUOTA_ADMISSION = "quota.scheduling.koordinator.sh/admission"
ANNOTATION_QUOTA_CHILD_REQUEST = "quota.scheduling.koordinator.sh/child-request"
ANNOTATION_REPLACE_RESOURCES = "pod.koordinator.sh/replace-resources"
ANNOTATION_RESERVE_POD = "scheduling.koordinator.sh/reserve-pod"
ANNOTATION_RESERVATION_NAME = "scheduling.koordinator.sh/reservation-name"
ANNOTATION_RESERVATION_ALLOCATED = "scheduling.koordinator.sh/reservation-allocated"

# --- resources -----------------------------------------------------------------------------------
CPU = "cpu"
MEMORY = "memory"
BATCH_CPU = "kubernetes.io/batch-cpu"
BATCH_MEMORY = "kubernetes.io/batch-memory"
MID_CPU = "kubernetes.io/mid-cpu"
MID_MEMORY = "kubernetes.io/mid-memory"
GPU = "koordinator.sh/gpu"
GPU_CORE = "koordinator.sh/gpu-core"
GPU_MEMORY = "koordinator.sh/gpu-memory"
GPU_MEMORY_RATIO = "koordinator.sh/gpu-memory-ratio"
GPU_SHARED = "koordinator.sh/gpu.shared"
NVIDIA_GPU = "nvidia.com/gpu"
HUAWEI_NPU_CORE = "huawei.com/npu-core"
