"""Training ordinary MLPs on the tasks that the constructed networks solve."""

from verify.training.batches import Streams
from verify.training.population import mlp
from verify.training.runs import Run, Settings, Trained, train

__all__ = ["Run", "Settings", "Streams", "Trained", "mlp", "train"]
