"""Training ordinary MLPs on the tasks that the constructed networks solve.

run = Run(family, split.train, seed=0)
trained = train([run], Settings(widths=(128, 128), steps=12_000))[0]
trained.network            # nn.Sequential of Linear and ReLU on rows [encoding, x], float32
"""

from verify.training.layers import mlp
from verify.training.runs import Run, Settings, Trained
from verify.training.scheduling import train
from verify.training.streams import Streams

__all__ = ["Run", "Settings", "Streams", "Trained", "mlp", "train"]
