{{/* Labels of a component: dict "root" $ "component" NAME. */}}
{{- define "koordpy.labels" -}}
{{ include "koordpy.selector" . }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{- define "koordpy.selector" -}}
app.kubernetes.io/name: koordpy
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "koordpy.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* A shipped configuration file for the release's namespace: dict "root" $ "file" PATH "over" MAP. */}}
{{- define "koordpy.config" -}}
{{- $text := .root.Files.Get .file | replace "koordinator-system" .root.Release.Namespace }}
{{- if .over }}
{{- mergeOverwrite (fromYaml $text) (deepCopy .over) | toYaml }}
{{- else }}
{{- $text | trim }}
{{- end }}
{{- end }}

{{/* The KubeSchedulerConfiguration with the extender's profiles, as text: $ */}}
{{- define "koordpy.profiles" -}}
{{- $values := .Values.scheduler }}
{{- $shipped := ternary "files/koordpy-profiles-reservations.yaml" "files/koordpy-profiles.yaml" $values.reservations }}
{{- if $values.gangsAndQuotas }}
{{- if not (or $values.reservations $values.profiles) }}{{ fail "scheduler.gangsAndQuotas needs scheduler.reservations, or scheduler.profiles of your own" }}{{ end }}
{{- $shipped = "files/koordpy-profiles-gangs-and-quotas.yaml" }}
{{- end }}
{{- if $values.numaAndDevices }}
{{- if not (or $values.reservations $values.profiles) }}{{ fail "scheduler.numaAndDevices needs scheduler.reservations, or scheduler.profiles of your own" }}{{ end }}
{{- $shipped = ternary "files/koordpy-profiles-numa-devices-gangs-and-quotas.yaml" "files/koordpy-profiles-numa-and-devices.yaml" $values.gangsAndQuotas }}
{{- end }}
{{- if eq $values.mode "light" }}{{ $shipped = "files/koordpy-profiles-light.yaml" }}{{ end }}
{{- $values.profiles | default (.Files.Get $shipped) | trim }}
{{- end }}

{{/* What values lay over a KoordpyConfiguration: dict "root" $ "config" MAP "gates" LIST of known gates. */}}
{{- define "koordpy.over" -}}
{{- $gates := dict }}
{{- range $name, $on := .root.Values.featureGates }}
{{- if has $name $.gates }}{{ $_ := set $gates $name $on }}{{ end }}
{{- end }}
{{- $over := deepCopy .config }}
{{- if $gates }}{{ $over = mergeOverwrite (dict "featureGates" $gates) $over }}{{ end }}
{{- toYaml $over }}
{{- end }}

{{/* The parts of a pod that are the same everywhere: dict "root" $ "values" THE COMPONENT'S VALUES. */}}
{{- define "koordpy.pod" -}}
priorityClassName: {{ .values.priorityClassName }}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "koordpy.container" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end }}

{{/* Spread the pods of a component: dict "component" NAME "keys" LIST of topology keys. */}}
{{- define "koordpy.spread" -}}
topologySpreadConstraints:
{{- range .keys }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "koordpy.selector" $ | nindent 8 }}
{{- end }}
{{- end }}

{{/* A ServiceAccount and a PodDisruptionBudget or NetworkPolicy around a component. */}}
{{- define "koordpy.serviceaccount" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: koordpy-{{ .component }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "koordpy.labels" . | nindent 4 }}
{{- end }}

{{- define "koordpy.budget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: koordpy-{{ .component }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "koordpy.labels" . | nindent 4 }}
spec:
  maxUnavailable: 1
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "koordpy.selector" . | nindent 6 }}
{{- end }}

{{- define "koordpy.networkpolicy" -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: koordpy-{{ .component }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "koordpy.labels" . | nindent 4 }}
spec:
  podSelector:
    matchLabels:
      {{- include "koordpy.selector" . | nindent 6 }}
  policyTypes: [Ingress, Egress]
  ingress:
    - from:
      {{- if eq .callers "apiServer" }}
      {{- range .root.Values.networkPolicies.apiServerCIDRs }}
        - ipBlock:
            cidr: {{ . }}
      {{- end }}
      {{- else }}
        - namespaceSelector:
            matchLabels:
              {{- toYaml .root.Values.networkPolicies.monitoringNamespaceLabels | nindent 14 }}
      {{- end }}
      ports:
        - protocol: TCP
          port: {{ .port }}
  egress:
    - ports:
      {{- range .root.Values.networkPolicies.apiServerPorts }}
        - protocol: TCP
          port: {{ . }}
      {{- end }}
      {{- if .kubelet }}
        - protocol: TCP
          port: 10250
      {{- end }}
{{- end }}

{{/* A binding of the component's service account: dict "root" "component" "name" "kind" "role" "namespace". */}}
{{- define "koordpy.binding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ if .namespace }}RoleBinding{{ else }}ClusterRoleBinding{{ end }}
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "koordpy.labels" . | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .kind }}
  name: {{ .role }}
subjects:
  - kind: ServiceAccount
    name: koordpy-{{ .component }}
    namespace: {{ .root.Release.Namespace }}
{{- end }}

{{/*
What the node agent's container needs beyond the least, as YAML: dict "values" .Values.qosAgent "config" MAP, its
KoordpyConfiguration. Every privilege is for a gate, a flag, or a fact about the nodes.
*/}}
{{- define "koordpy.agentPrivileges" -}}
{{- $on := dict }}
{{- range $gate, $value := (.config.featureGates | default dict) }}
{{- if $value }}{{ $_ := set $on $gate true }}{{ end }}
{{- end }}
{{- $flags := (.config.agent).flags | default dict }}
{{- $nodes := .values.nodes }}
{{- $evicts := false }}
{{- range tuple "BECPUEvict" "BEMemoryEvict" "CPUAllocatableEvict" "CPUEvict" "MemoryAllocatableEvict" "MemoryEvict" }}
{{- if hasKey $on . }}{{ $evicts = true }}{{ end }}
{{- end }}
{{- $byAPI := eq (get $flags "only-evict-by-api" | toString) "true" }}
{{- $kills := and $evicts (not $byAPI) $nodes.cgroupV1 }}
{{- $resctrl := or $nodes.resctrl (hasKey $on "Resctrl") (hasKey $on "ResctrlCollector") }}
{{- $capabilities := list }}
{{- if hasKey $on "CoreSched" }}{{ $capabilities = append $capabilities "SYS_PTRACE" }}{{ end }}
{{- if $kills }}{{ $capabilities = append $capabilities "KILL" }}{{ end }}
{{- if or $resctrl (hasKey $on "OOMScoreAdj") }}{{ $capabilities = append $capabilities "DAC_OVERRIDE" }}{{ end }}
{{- if or (hasKey $on "OOMScoreAdj") (hasKey $on "PressureTriggers") }}{{ $capabilities = append $capabilities "SYS_RESOURCE" }}{{ end }}
{{- if hasKey $on "CPICollector" }}{{ $capabilities = append $capabilities "PERFMON" }}{{ end }}
{{- if hasKey $on "TCNetworkQoS" }}{{ $capabilities = append $capabilities "NET_ADMIN" }}{{ end }}
capabilities: {{ $capabilities | toJson }}
hostNetwork: {{ hasKey $on "TCNetworkQoS" }}
devices: {{ or (hasKey $on "Accelerators") (hasKey $on "RDMADevices") }}
hostPID: {{ or $kills $resctrl (hasKey $on "Accelerators") (hasKey $on "RDMADevices") (hasKey $on "BlkIOReconcile") (hasKey $on "CoreSched") (hasKey $on "OOMScoreAdj") | ternary true false }}
kernel: {{ or $nodes.kernelSwitches (hasKey $on "ColdPageCollector") (hasKey $on "SystemConfig") | ternary true false }}
resctrl: {{ $resctrl | ternary true false }}
terway: {{ hasKey $on "TerwayQoS" }}
blockIO: {{ hasKey $on "BlkIOReconcile" }}
evictionByAPI: {{ and $evicts $byAPI | ternary true false }}
kubelet: {{ eq (get $flags "pod-source" | toString) "kubelet" }}
{{- end }}

{{/* A ClusterRole of the node agent for one feature, with its binding: dict "root" $ "name" NAME "rules" LIST. */}}
{{- define "koordpy.agentRole" -}}
{{- $part := dict "root" .root "component" "qos-agent" }}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: koordpy-qos-agent-{{ .name }}
  labels:
    {{- include "koordpy.labels" $part | nindent 4 }}
rules:
  {{- toYaml .rules | nindent 2 }}
---
{{ include "koordpy.binding" (merge (dict "name" (printf "koordpy-qos-agent-%s" .name) "kind" "ClusterRole" "role" (printf "koordpy-qos-agent-%s" .name)) $part) }}
{{- end }}

{{/* The feature gates that each component knows; others are not passed to it. Koordinator's names. */}}
{{- define "koordpy.webhookGates" -}}
- BindingAdmissionWebhook
- ColocationProfileSkipMutatingResources
- ColocationProfileSkipValidatingPriority
- ConfigMapValidatingWebhook
- DisableDefaultQuota
- DisableDeviceResourceSpec
- DisableExtendedResourceSpec
- ElasticMutatingWebhook
- ElasticQuotaEnableUpdateResourceKey
- ElasticQuotaEvaluationTransformPod
- ElasticQuotaGuaranteeUsage
- ElasticValidatingWebhook
- EnablePodEnhancedValidator
- EnableQuotaAdmission
- EnableQuotaAdmissionOnUpdate
- MultiQuotaTree
- NodeMutatingWebhook
- NodeValidatingWebhook
- PodDeviceEnvironment
- PodMutatingWebhook
- PodValidatingWebhook
- ProtectPodAllocation
- ReplaceResourcesTransformer
- ReservationDeviceResourceSpec
- ReservationMutatingWebhook
- SupportParentQuotaSubmitPod
- ValidatePodDeviceResource
- WebhookFramework
{{- end }}

{{- define "koordpy.workerGates" -}}
- ColocationProfileController
- EnableSyncGPUSharedResource
{{- end }}

{{- define "koordpy.qosGates" -}}
- Accelerators
- AuditEvents
- AuditEventsHTTPHandler
- BECPUEvict
- BECPUManager
- BECPUSuppress
- BEMemoryEvict
- BatchResource
- BlkIOReconcile
- CPICollector
- CPUAllocatableEvict
- CPUBurst
- CPUEvict
- CPUNormalization
- CPUSetAllocator
- CgroupReconcile
- ColdPageCollector
- CoreSched
- GPUEnvInject
- GroupIdentity
- HamiCoreVGPUMonitor
- HugePageReport
- Libpfm4
- MemoryAllocatableEvict
- MemoryEvict
- NodeMetricPromMetrics
- NodeTopologyReport
- OOMScoreAdj
- PSICollector
- PerCPUMetric
- PodResourcesProxy
- PressureTriggers
- RDMADeviceInject
- RDMADevices
- RdtResctrl
- Resctrl
- ResctrlCollector
- SystemConfig
- TCNetworkQoS
- TerwayQoS
{{- end }}
