"""The rules of a task as pure values and functions, without input or output."""
