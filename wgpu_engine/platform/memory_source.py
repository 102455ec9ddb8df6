"""A byte source over bytes in memory, for what a model's files only imply."""

from wgpu_engine.errors import ModelFileError


class MemorySource:
    """Bytes that are there already."""

    def __init__(self, name: str, data: bytes) -> None:
        self.name = name
        self.size = len(data)
        self._data = data

    async def read(self, offset: int, length: int) -> memoryview:
        """A view of `length` bytes from `offset`; nothing is copied."""
        if offset < 0 or length < 0 or offset + length > self.size:
            raise ModelFileError(
                f"{self.name} has {self.size} bytes and bytes {offset} to {offset + length} were asked for: "
                "download the model again"
            )
        return memoryview(self._data)[offset : offset + length]

    def close(self) -> None:
        """Nothing is held."""
