"""The command `wgpu-engine`, also as `python -m wgpu_engine`."""

import sys


def main() -> None:
    """Run the command line."""
    try:
        # here, since it takes long enough for a Ctrl-C
        from wgpu_engine.cli.main import main

        main()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
