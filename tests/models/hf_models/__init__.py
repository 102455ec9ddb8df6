"""Random small models as Hugging Face publishes them, of every architecture and with any feature switched on."""

from .configs import BASES, config_of
from .folder import safetensors, write_folder
from .shapes import shapes
from .variants import VARIANTS, Variant

__all__ = ["BASES", "VARIANTS", "Variant", "config_of", "safetensors", "shapes", "write_folder"]
