"""An OpenAI-compatible server, and the page in front of it."""

from wgpu_engine.server.app import create_app, create_embeddings_app

__all__ = ["create_app", "create_embeddings_app"]
