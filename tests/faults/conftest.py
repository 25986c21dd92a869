"""Every cluster of these tests is audited at its end."""

from tests.audited import audited as audited
