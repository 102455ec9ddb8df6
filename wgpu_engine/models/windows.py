"""Sliding windows: which layers see only the last positions."""

from wgpu_engine.models.settings import Settings

_KEY = "attention.sliding_window_pattern"


def layer_windows(settings: Settings, layers: int, period: int = 0, window: int = 0) -> tuple[int, ...]:
    """Positions that a row of each layer sees, its own among them; 0: all before it.

    Every `period`-th layer has no window, and the others have `window`, unless the settings say otherwise; with period
    0 all have one. As in llama.cpp (set_swa_pattern), a file may give a period or a flag for each layer.

    Raises:
        ModelFileError: a setting that can't be.
    """
    window = settings.count("attention.sliding_window", window, smallest=0, largest=1 << 31)
    slides = settings.flags(_KEY, layers)
    if slides is None:
        period = settings.count(_KEY, period, smallest=0)
        slides = [period == 0 or i % period < period - 1 for i in range(layers)]
    return tuple(window if slide else 0 for slide in slides)
