"""The life of the webhook server: its certificates, its entries in the cluster, and whether it is well.

Source: Koordinator, `pkg/webhook/util` (generator, writer, controller, configuration, health).
"""
