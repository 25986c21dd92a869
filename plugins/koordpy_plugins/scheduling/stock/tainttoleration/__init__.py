"""TaintToleration: pods avoid nodes with taints that they do not tolerate."""
