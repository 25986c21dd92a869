"""The files that commands of the stories read, by name."""

_WEB = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: main
        image: registry.test/web:1
        ports: [{containerPort: 80}]
        resources: {requests: {cpu: 100m}}
"""
_POD = """
apiVersion: v1
kind: Pod
metadata: {name: one, labels: {app: one}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: registry.test/one:1
    resources: {requests: {cpu: 250m, memory: 64Mi}, limits: {memory: 64Mi}}
"""
_NODE = """
apiVersion: v1
kind: Node
metadata: {name: node-1, labels: {kubernetes.io/hostname: node-1}}
status:
  capacity: {cpu: "4", memory: 8Gi, pods: "110"}
  allocatable: {cpu: "4", memory: 8Gi, pods: "110"}
  conditions:
  - {type: Ready, status: "True", reason: KubeletReady, message: ready}
"""
_EVENTS = """
apiVersion: v1
kind: Event
metadata: {name: late}
involvedObject: {kind: Pod, namespace: story-events, name: one}
reason: Late
message: the later one
type: Warning
count: 2
firstTimestamp: "2024-01-01T00:00:00Z"
lastTimestamp: "2024-01-02T00:00:00Z"
source: {component: test}
---
apiVersion: v1
kind: Event
metadata: {name: early}
involvedObject: {kind: Pod, namespace: story-events, name: one}
reason: Early
message: the earlier one
type: Normal
count: 1
firstTimestamp: "2023-01-01T00:00:00Z"
lastTimestamp: "2023-01-02T00:00:00Z"
source: {component: test}
"""
_NEW_EVENT = """
apiVersion: events.k8s.io/v1
kind: Event
metadata: {name: new}
regarding: {kind: Pod, namespace: story-events, name: one}
reason: New
note: by the new API
type: Normal
action: Testing
eventTime: "2024-06-01T00:00:00.000000Z"
reportingController: example.com/test
reportingInstance: test-1
"""
_CONFIG_MAP = """
apiVersion: v1
kind: ConfigMap
metadata: {name: listed}
data: {a: "1"}
"""
_ENDPOINTS = """
apiVersion: v1
kind: Endpoints
metadata: {name: web}
subsets:
- addresses: [{ip: 10.1.2.3}, {ip: 10.1.2.4}]
  ports: [{port: 8080}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-slice, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
endpoints:
- {addresses: [10.1.2.3], conditions: {ready: true}}
ports: [{port: 8080}]
"""
_REQUEST = """
apiVersion: certificates.k8s.io/v1
kind: CertificateSigningRequest
metadata: {name: signing}
spec:
  signerName: example.com/test
  usages: [client auth]
  request: REQUEST
"""

FILES = {
    "web.yaml": _WEB,
    "web2.yaml": _WEB.replace("web:1", "web:2").replace("replicas: 2", "replicas: 3"),
    "bad.yaml": _WEB.replace("matchLabels: {app: web}", "matchLabels: {app: other}"),
    "unknown.yaml": _WEB.replace("replicas: 2", "colour: red"),
    "pod.yaml": _POD,
    "node.yaml": _NODE,
    "endpoints.yaml": _ENDPOINTS,
    "event.yaml": _NEW_EVENT,
    "events.yaml": _EVENTS,
    "list.yaml": f"{_POD.replace('one', 'listed')}---{_CONFIG_MAP}",
    "banana.yaml": "apiVersion: v1\nkind: Banana\nmetadata: {name: x}\n",
    "broken.yaml": "a: [",
    "kustomization.yaml": "resources: [pod.yaml]\nnamePrefix: k-\n",
    "side.yaml": "spec: {template: {spec: {containers: [{name: side, image: registry.test/side:1}]}}}",
    "signing.yaml": _REQUEST,
}
