import subprocess
import sys

SHARED = ("gguf", "gguf_window", "ggml_types", "disguise", "quants")
FORBIDDEN = ("numpy", "wgpu", "tokenizers", "gguf", "httpx", "platformdirs", "mmap")


def test_the_reader_needs_no_desktop_libraries() -> None:
    """The same reader runs in a browser, where these don't exist."""
    modules = ", ".join(f"wgpu_engine.files.{name}" for name in SHARED)
    code = f"import sys, {modules}; print([name for name in {FORBIDDEN} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
