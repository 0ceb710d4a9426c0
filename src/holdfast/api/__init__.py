"""The Python API: task kinds, enqueueing, handles to enqueued tasks, and the payload codec."""
