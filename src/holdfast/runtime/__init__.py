"""Makes tasks happen: a supervisor, its executors, leases, maintenance."""
