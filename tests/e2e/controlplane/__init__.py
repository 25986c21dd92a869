"""A real control plane for tests and benchmarks: kube-apiserver, etcd, kube-scheduler, kubectl."""
