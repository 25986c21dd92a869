"""TaintToleration: taints keep pods away that do not tolerate them."""
