"""The Python face: kinds that can be enqueued, handles to what was, and the codec between."""
