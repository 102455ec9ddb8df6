"""The features of each architecture, switched on in a model of its own: what the harness goes through."""

from .gemma import GEMMA
from .llama import LLAMA, MISTRAL
from .others import OTHERS
from .phi import PHI
from .qwen import QWEN
from .variant import Variant

__all__ = ["VARIANTS", "Variant"]

VARIANTS = (*LLAMA, *MISTRAL, *QWEN, *GEMMA, *PHI, *OTHERS)
