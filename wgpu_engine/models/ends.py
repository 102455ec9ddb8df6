"""What a decoder has outside its layers: the embedding of tokens before them, a norm and the head behind them."""

from dataclasses import dataclass

from wgpu_engine.gpu.device import Buffer
from wgpu_engine.models.linear import Linear, load_linear
from wgpu_engine.models.tensors import Tensors
from wgpu_engine.ops.builder import Activation, PlanBuilder
from wgpu_engine.ops.matmul import project
from wgpu_engine.ops.repack import Loader
from wgpu_engine.ops.weight import Norm, Weight


@dataclass(frozen=True)
class Ends:
    """The weights outside of layers; where a file has no head, it is the embedding."""

    embedding: Weight
    norm: Norm
    head: Linear

    @staticmethod
    async def load(tensors: Tensors, vocab: int, width: int, norm: Norm, loader: Loader) -> "Ends":
        """Loads the embedding and the head, [vocab, width] each.

        Raises:
            ModelFileError: a tensor is missing or has the wrong shape.
        """
        embedding = await loader.weight("token_embd", [[tensors.take("token_embd.weight", vocab, width)]])
        head = Linear((embedding,), None)
        if "output.weight" in tensors:
            head = await load_linear(tensors, "output", vocab, width, loader)
        return Ends(embedding, norm, head)

    def logits(self, builder: PlanBuilder, h: Activation, *, scale: float = 1.0, cap: float = 0.0) -> Buffer | None:
        """Logits f32 [outputs, vocab] of normed rows, scaled and capped by `project`; None without outputs."""
        if not builder.outputs:
            return None
        vocab = self.embedding.features
        logits = builder.logits(vocab)
        weights, bias = self.head.weights, self.head.bias
        project(builder, weights, h, logits, vocab, bias=bias, scale=scale, cap=cap, outputs_only=True)
        return logits
