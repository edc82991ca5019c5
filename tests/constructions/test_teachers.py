"""The paper's own teachers: constructed networks reproduce the outputs that its code stored."""

import numpy as np
import pytest
import torch

from constructions import build
from strategies import DATA
from theory import Hyperteacher

#: The stored outputs were computed in float32; a float64 evaluation of the target differs by less than this.
STORED = 2e-6


@pytest.mark.parametrize("split", ["train", "ood"])
@pytest.mark.parametrize(
    ("name", "eps", "method", "most"),
    [
        ("paper-discrete", None, "exact", 1648),
        ("small-khot", None, "exact", 48),
        ("deep-khot", None, "exact", 168),
        ("small-continuous", 1e-3, "shallow", 4000),
        ("small-continuous", 1e-3, "deep", 500),
    ],
)
def test_stored_outputs_are_reproduced(name, eps, method, most, split):
    path = DATA / f"{name}.npz"
    net = build(Hyperteacher.load(path), eps, method)
    assert net.neurons <= most and net.neurons == net.formula_neurons
    with np.load(path) as stored:
        x, y, z = (torch.from_numpy(stored[f"{key}_{split}"].astype(np.float64)) for key in "xyz")
    error = float((net(x, z) - y).abs().max())
    assert error <= net.guaranteed_error + net.rounding_error + STORED
    assert float((net(x.flip(2), z) - y).abs().max()) > 0.1  # the comparison can say no
