"""Stop strings in a stream of text."""

from collections.abc import Sequence

from wgpu_engine.errors import RequestError

_MOST_STOPS = 64
_LONGEST_STOP = 1024


class StopStrings:
    """Passes text on until a stop string is complete; of that string nothing gets through.

    The string that is complete first counts (the longest of several that end together), so the result doesn't depend
    on how the text was cut.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        """Takes up to 64 strings of 1 to 1,024 characters; none means that nothing ever stops.

        Raises:
            RequestError: there are too many, or one is empty or too long.
        """
        if len(stops) > _MOST_STOPS:
            raise RequestError(f"stop has {len(stops)} strings: give at most {_MOST_STOPS}")
        if not all(1 <= len(stop) <= _LONGEST_STOP for stop in stops):
            raise RequestError(f"a stop string must have 1 to {_LONGEST_STOP} characters: change or remove it")
        self._stops = tuple(stops)
        self._held = ""
        self._stopped = False

    def push(self, text: str) -> tuple[str, bool]:
        """The text that is safe to show now, and whether a stop string was found; after that, nothing more."""
        if self._stopped:
            return "", True
        text = self._held + text
        found = [(start + len(stop), start) for stop in self._stops if (start := text.find(stop)) >= 0]
        if found:
            self._stopped, self._held = True, ""
            return text[: min(found)[1]], True
        held = max((_overlap(text, stop) for stop in self._stops), default=0)
        self._held = text[len(text) - held :]
        return text[: len(text) - held], False

    def finish(self) -> str:
        """What was held back, when the text ends without a stop string."""
        held, self._held = self._held, ""
        return held


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of `text` that begins `stop`."""
    return next((size for size in range(min(len(stop) - 1, len(text)), 0, -1) if text.endswith(stop[:size])), 0)
