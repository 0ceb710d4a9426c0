"""The rules of a task: pure values and functions, no input or output."""
