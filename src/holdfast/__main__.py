"""`holdfast`, and `python -m holdfast`."""

import sys


def main() -> None:
    """Run a command; whoever interrupts it, even while it is being loaded, sees no traceback."""
    try:
        from holdfast.cli.main import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
