"""The `holdfast` command and the entry points of the worker's processes."""
