"""An app whose import fails."""

raise RuntimeError("no configuration")
