"""Helm, for tests of the chart: pinned and built as the control plane is, in a Go module of its own."""
