"""The command `edgeinfer`, and `python -m edgeinfer`: so little that Ctrl-C is heard while the rest is imported."""

import sys


def main() -> None:
    """Run the command line: `edgeinfer.cli.main`."""
    try:
        from edgeinfer.cli import main as command

        command.main()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
