"""The only room that writes tasks: statements in `tasks.sql`, and the connections they run on."""
