"""Runtime shared by all verbs: caches, leases, audit, redaction."""
