from tests.audited import audited as audited
