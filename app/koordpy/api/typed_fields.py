"""Data of typed decoding beyond `patch_types.txt`: kinds of scalars, and fields that are always written.

The types are those of Pods, Nodes, ConfigMaps, ElasticQuotas and Reservations.

Places are written `Type.field`. Source: Kubernetes API 1.35; Koordinator, `apis/scheduling/v1alpha1`.
"""

from typing import Final

KINDS: Final[dict[str, str]] = {
    "bool": """
        AWSElasticBlockStoreVolumeSource.readOnly AzureDiskVolumeSource.readOnly
        AzureFileVolumeSource.readOnly
        CSIVolumeSource.readOnly CephFSVolumeSource.readOnly CinderVolumeSource.readOnly
        ClusterTrustBundleProjection.optional ConfigMap.immutable ConfigMapEnvSource.optional
        ConfigMapKeySelector.optional
        ConfigMapProjection.optional ConfigMapVolumeSource.optional Container.stdin Container.stdinOnce
        Container.tty ContainerStatus.ready ContainerStatus.started EphemeralContainer.stdin
        EphemeralContainer.stdinOnce EphemeralContainer.tty FCVolumeSource.readOnly FileKeySelector.optional
        FlexVolumeSource.readOnly GCEPersistentDiskVolumeSource.readOnly GlusterfsVolumeSource.readOnly
        ISCSIVolumeSource.chapAuthDiscovery ISCSIVolumeSource.chapAuthSession ISCSIVolumeSource.readOnly
        NFSVolumeSource.readOnly NodeFeatures.supplementalGroupsPolicy
        NodeRuntimeHandlerFeatures.recursiveReadOnlyMounts NodeRuntimeHandlerFeatures.userNamespaces
        NodeSpec.unschedulable OwnerReference.blockOwnerDeletion OwnerReference.controller
        PersistentVolumeClaimVolumeSource.readOnly PodSecurityContext.runAsNonRoot
        PodSpec.automountServiceAccountToken PodSpec.enableServiceLinks PodSpec.hostIPC PodSpec.hostNetwork
        PodSpec.hostPID PodSpec.hostUsers PodSpec.setHostnameAsFQDN PodSpec.shareProcessNamespace
        PortworxVolumeSource.readOnly QuobyteVolumeSource.readOnly RBDVolumeSource.readOnly
        PreAllocationPolicy.enableMultiple ReservationControllerReference.blockOwnerDeletion
        ReservationControllerReference.controller ReservationSpec.allocateOnce ReservationSpec.preAllocation
        ReservationSpec.unschedulable
        ScaleIOVolumeSource.readOnly ScaleIOVolumeSource.sslEnabled SecretEnvSource.optional
        SecretKeySelector.optional SecretProjection.optional SecretVolumeSource.optional
        SecurityContext.allowPrivilegeEscalation SecurityContext.privileged
        SecurityContext.readOnlyRootFilesystem SecurityContext.runAsNonRoot StorageOSVolumeSource.readOnly
        VolumeMount.readOnly VolumeMountStatus.readOnly WindowsSecurityContextOptions.hostProcess
    """,
    "int32": """
        AWSElasticBlockStoreVolumeSource.partition ConfigMapVolumeSource.defaultMode
        ContainerPort.containerPort ContainerPort.hostPort ContainerRestartRuleOnExitCodes.values
        ContainerStateTerminated.exitCode ContainerStateTerminated.signal ContainerStatus.restartCount
        DaemonEndpoint.Port
        DownwardAPIVolumeFile.mode
        DownwardAPIVolumeSource.defaultMode FCVolumeSource.lun GCEPersistentDiskVolumeSource.partition
        GRPCAction.port ISCSIVolumeSource.lun KeyToPath.mode PodCertificateProjection.maxExpirationSeconds
        PodSpec.priority PreferredSchedulingTerm.weight Probe.failureThreshold Probe.initialDelaySeconds
        Probe.periodSeconds Probe.successThreshold Probe.timeoutSeconds ProjectedVolumeSource.defaultMode
        SecretVolumeSource.defaultMode TopologySpreadConstraint.maxSkew TopologySpreadConstraint.minDomains
        WeightedPodAffinityTerm.weight
    """,
    "int64": """
        ContainerImage.sizeBytes NodeSwapStatus.capacity
        LinuxContainerUser.gid LinuxContainerUser.supplementalGroups LinuxContainerUser.uid
        ObjectMeta.deletionGracePeriodSeconds ObjectMeta.generation PodCondition.observedGeneration
        PodSecurityContext.fsGroup PodSecurityContext.runAsGroup PodSecurityContext.runAsUser
        PodSecurityContext.supplementalGroups PodSpec.activeDeadlineSeconds
        PodSpec.terminationGracePeriodSeconds PodStatus.observedGeneration
        Probe.terminationGracePeriodSeconds SecurityContext.runAsGroup SecurityContext.runAsUser
        ServiceAccountTokenProjection.expirationSeconds SleepAction.seconds Toleration.tolerationSeconds
    """,
    "intOrString": "HTTPGetAction.port TCPSocketAction.port",
    "quantity": "EmptyDirVolumeSource.sizeLimit ResourceFieldSelector.divisor",
    "quantities": """
        ContainerStatus.allocatedResources ElasticQuotaSpec.max ElasticQuotaSpec.min ElasticQuotaStatus.used
        NodeStatus.allocatable NodeStatus.capacity PodSpec.overhead
        PodStatus.allocatedResources ReservationStatus.allocatable ReservationStatus.allocated
        ResourceRequirements.limits ResourceRequirements.requests VolumeResourceRequirements.limits
        VolumeResourceRequirements.requests
    """,
    "strings": """
        ConfigMap.binaryData ConfigMap.data
        CSIVolumeSource.volumeAttributes FlexVolumeSource.options LabelSelector.matchLabels
        ObjectMeta.annotations ObjectMeta.labels PodCertificateProjection.userAnnotations PodSpec.nodeSelector
    """,
    "time": """
        ContainerStateRunning.startedAt ContainerStateTerminated.finishedAt ContainerStateTerminated.startedAt
        ManagedFieldsEntry.time NodeCondition.lastHeartbeatTime NodeCondition.lastTransitionTime
        ObjectMeta.creationTimestamp ObjectMeta.deletionTimestamp
        PodCondition.lastProbeTime PodCondition.lastTransitionTime PodStatus.startTime Taint.timeAdded
        ReservationCondition.lastProbeTime ReservationCondition.lastTransitionTime ReservationSpec.expires
    """,
    "duration": "ReservationSpec.ttl",
    "any": "ManagedFieldsEntry.fieldsV1",
}
"""Kinds of scalars (of list items, if the field is a list) that are not texts."""

WRITTEN_EMPTY: Final = """
    AWSElasticBlockStoreVolumeSource.volumeID AppArmorProfile.type AzureDiskVolumeSource.diskName
    AzureDiskVolumeSource.diskURI AzureFileVolumeSource.secretName AzureFileVolumeSource.shareName
    CSIVolumeSource.driver CephFSVolumeSource.monitors CinderVolumeSource.volumeID
    ClusterTrustBundleProjection.path ConfigMapKeySelector.key Container.name
    ContainerExtendedResourceRequest.containerName ContainerExtendedResourceRequest.requestName
    ContainerExtendedResourceRequest.resourceName ContainerPort.containerPort
    ContainerResizePolicy.resourceName ContainerResizePolicy.restartPolicy ContainerStateRunning.startedAt
    ContainerStateTerminated.exitCode ContainerStateTerminated.finishedAt ContainerStateTerminated.startedAt
    ContainerStatus.image ContainerStatus.imageID ContainerStatus.name ContainerStatus.ready
    ContainerStatus.restartCount DownwardAPIVolumeFile.path EnvVar.name EphemeralContainer.name
    FileKeySelector.key FileKeySelector.path FileKeySelector.volumeName FlexVolumeSource.driver
    GCEPersistentDiskVolumeSource.pdName GRPCAction.port GRPCAction.service GitRepoVolumeSource.repository
    GlusterfsVolumeSource.endpoints GlusterfsVolumeSource.path HTTPGetAction.port HTTPHeader.name
    HTTPHeader.value HostAlias.ip HostIP.ip HostPathVolumeSource.path ISCSIVolumeSource.iqn
    ISCSIVolumeSource.lun ISCSIVolumeSource.targetPortal KeyToPath.key KeyToPath.path
    LabelSelectorRequirement.key LabelSelectorRequirement.operator LinuxContainerUser.gid
    LinuxContainerUser.uid NFSVolumeSource.path NFSVolumeSource.server NodeSelector.nodeSelectorTerms
    NodeSelectorRequirement.key NodeSelectorRequirement.operator ObjectFieldSelector.fieldPath
    OwnerReference.apiVersion OwnerReference.kind OwnerReference.name OwnerReference.uid
    PersistentVolumeClaimVolumeSource.claimName PhotonPersistentDiskVolumeSource.pdID
    PodAffinityTerm.topologyKey PodCondition.lastProbeTime PodCondition.lastTransitionTime
    PodCondition.status PodCondition.type PodExtendedResourceClaimStatus.requestMappings
    PodExtendedResourceClaimStatus.resourceClaimName PodIP.ip PodOS.name PodReadinessGate.conditionType
    PodResourceClaim.name PodResourceClaimStatus.name PodSchedulingGate.name PodSpec.containers
    PortworxVolumeSource.volumeID PreferredSchedulingTerm.weight ProjectedVolumeSource.sources
    QuobyteVolumeSource.registry QuobyteVolumeSource.volume RBDVolumeSource.image RBDVolumeSource.monitors
    ReservationCondition.lastProbeTime ReservationCondition.lastTransitionTime
    ReservationControllerReference.apiVersion ReservationControllerReference.kind
    ReservationControllerReference.name ReservationControllerReference.uid ReservationSpec.owners
    ReservationSpec.template
    ResourceClaim.name ResourceFieldSelector.divisor ResourceFieldSelector.resource ResourceHealth.resourceID
    ResourceStatus.name ScaleIOVolumeSource.gateway ScaleIOVolumeSource.secretRef ScaleIOVolumeSource.system
    SeccompProfile.type SecretKeySelector.key ServiceAccountTokenProjection.path SleepAction.seconds
    Sysctl.name Sysctl.value TCPSocketAction.port TopologySpreadConstraint.maxSkew
    TopologySpreadConstraint.topologyKey TopologySpreadConstraint.whenUnsatisfiable
    TypedLocalObjectReference.apiGroup TypedLocalObjectReference.kind TypedLocalObjectReference.name
    TypedObjectReference.apiGroup TypedObjectReference.kind TypedObjectReference.name Volume.name
    VolumeDevice.devicePath VolumeDevice.name VolumeMount.mountPath VolumeMount.name
    VolumeMountStatus.mountPath VolumeMountStatus.name VsphereVirtualDiskVolumeSource.volumePath
    WeightedPodAffinityTerm.weight WorkloadReference.name WorkloadReference.podGroup
"""
"""Fields that are written even if empty. Structs that cannot be unset always are, and are not listed."""
