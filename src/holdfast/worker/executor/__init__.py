"""The executor process: claims tasks, runs handlers, settles their outcomes."""
