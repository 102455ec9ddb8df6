"""The errors that the engine raises on purpose.

Each message is one sentence that says what is wrong and what to do about it; the command line prints it and exits
with 2, a server answers it with a status.
"""


class EngineError(Exception):
    """Base of every error that a user can act on."""


class ModelFileError(EngineError):
    """The model file is damaged, truncated or not what it claims to be."""


class UnsupportedModelError(EngineError):
    """The file is sound, but holds something that this version can't run."""


class ModelNotFoundError(EngineError):
    """No such model in the store, the catalogue or on the disk."""


class DownloadError(EngineError):
    """A model could not be fetched, or what came isn't what was asked for."""


class AddressError(DownloadError):
    """There is no model at an address, or none for us."""


class StorageFullError(DownloadError):
    """There is no room to keep a model that has to be kept."""


class NoAdapterError(EngineError):
    """No WebGPU adapter fits the request."""


class DeviceError(EngineError):
    """A kernel or buffer was refused by the device."""


class DeviceLostError(DeviceError):
    """The device went away; the model has to be loaded again."""


class OutOfMemoryError(DeviceError):
    """The model or its KV cache does not fit the adapter."""


class BundleError(EngineError):
    """The folder for browsers can't be built of what was given or fetched."""


class RequestError(EngineError, ValueError):
    """A request's parameter is out of range."""


class QueueFullError(EngineError):
    """Too many requests wait already."""


class ContextFullError(RequestError):
    """The prompt is longer than the context."""


class EncoderError(RequestError):
    """The model makes embeddings, and was asked to write."""
