"""Language models on any WebGPU adapter, from Python and in the browser."""

__version__ = "0.1.0"
