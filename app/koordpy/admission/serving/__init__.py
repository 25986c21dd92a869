"""The webhook server's lifecycle: its certificates, its webhook configurations, and its readiness.

Source: Koordinator, `pkg/webhook/util` (generator, writer, controller, configuration, health).
"""
