"""An in-process control plane, accessed over HTTP like the real one."""
