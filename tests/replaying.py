"""An evaluator of constructed layers in Fractions that shares no code with the package."""

from fractions import Fraction


def trace(net, row):
    """(pre-activations, values) of every layer in Fractions at one row [z, x]."""
    assert net.exact
    value, seen = list(row), []
    for number, layer in enumerate(net.layers):
        total = list(layer.bias)
        assert layer.weight.shape == (len(value), len(total))
        for i, j, w in zip(layer.weight.row, layer.weight.col, layer.weight.val, strict=True):
            total[j] += value[i] * w
        value = total if number == net.depth else [max(v, Fraction(0)) for v in total]
        seen.append((total, value))
    return seen


def replay(net, row):
    """Outputs of the network in Fractions at one row [z, x]."""
    return trace(net, row)[-1][1]
