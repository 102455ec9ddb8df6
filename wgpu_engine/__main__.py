"""`python -m wgpu_engine` is the command `wgpu-engine`."""

from wgpu_engine.cli.main import main

main()
