"""A real control plane for tests and benchmarks: kube-apiserver, etcd, kube-scheduler and kubectl, built and run."""
