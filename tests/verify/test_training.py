"""Training: gradients, AdamW, streams of their own, populations, and runs that are killed and taken up again."""

import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from refusals import assert_refused
from theory import Hyperteacher, Supports, Words, encodings, splits
from verify import train
from verify.training import Run, Settings, Streams, mlp
from verify.training.batches import Batches
from verify.training.population import Population
from verify.training.products import Products

FAMILY = Hyperteacher.sample(6, 2, 3, (4,), 2, "discrete", seed=0)
SPLIT = splits.random(Supports(6, 2), 0.3, 0)
TINY = Settings(widths=(8, 7), steps=60, tasks=5, samples=3, rate=1e-2)


def run(seed=0, **others):
    return Run(FAMILY, SPLIT.train, seed, **others)


def same(a, b):
    return all(torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters(), strict=True))


def batches(streams, pool=SPLIT.train, encoding=None):
    return Batches(FAMILY, pool, encoding or encodings.make("identity", FAMILY), streams, 5, 3, 4)


@given(st.lists(st.integers(1, 9), min_size=2, max_size=5), st.integers(0, 99), st.integers(0, 3))
@settings(max_examples=40)
def test_gradients_are_those_of_autograd(sizes, seed, members):
    """For one network and for a population at once, which takes the products that a GPU takes."""
    generator = torch.Generator().manual_seed(seed)
    population = Population(sizes, members, 6, Products(), torch.device("cpu"))
    networks = [mlp(sizes, seed + i) for i in range(max(members, 1))]
    population.load(networks)
    lead = (members,) if members else ()
    rows, target = (torch.randn(*lead, 6, n, generator=generator) for n in (sizes[0], sizes[-1]))
    loss = population.step(rows, target)
    for i, network in enumerate(networks):
        at = i if members else ...
        wanted = nn.functional.mse_loss(network(rows[at]), target[at])
        wanted.backward()
        assert torch.allclose(loss[i] if members else loss, wanted, rtol=1e-5)
        linears = [m for m in network if isinstance(m, nn.Linear)]
        for layer, linear in enumerate(linears):
            for own, grad in (
                (population.weight_gradients, linear.weight.grad),
                (population.bias_gradients, linear.bias.grad),
            ):
                assert torch.allclose(own[layer][at], grad, rtol=1e-4, atol=1e-6)
    assert all(same(a, b) for a, b in zip(population.networks(), networks, strict=True))


def test_steps_are_those_of_torchs_adamw():
    """Against torch.optim.AdamW with autograd: decay on weights and not on biases, warm-up, then constant."""
    settings = Settings(widths=(8,), steps=30, tasks=4, samples=3, rate=3e-2, warmup=7, decay=0.5)
    found = train([run(3)], settings)[0].network
    network = mlp((9, 8, 2), 3)
    weights, biases = ([getattr(m, n) for m in network if isinstance(m, nn.Linear)] for n in ("weight", "bias"))
    optimiser = torch.optim.AdamW([{"params": weights, "weight_decay": 0.5}, {"params": biases, "weight_decay": 0.0}])
    source = Batches(FAMILY, SPLIT.train, encodings.make("identity", FAMILY), Streams.of(3), 4, 3, 25)
    for step in range(30):
        shown, x, y = (part[step % 25] for part in source.block(step // 25, torch.device("cpu")))
        rows = torch.cat([shown.unsqueeze(1).expand(-1, 3, -1), x], dim=-1)
        optimiser.zero_grad()
        nn.functional.mse_loss(network(rows), y).backward()
        for group in optimiser.param_groups:
            group["lr"] = 3e-2 * min(1.0, (step + 1) / 7)
        optimiser.step()
    for a, b in zip(found.parameters(), network.parameters(), strict=True):
        assert torch.allclose(a, b, rtol=1e-3, atol=1e-5)
    without = train([run(3)], Settings(widths=(8,), steps=30, tasks=4, samples=3, rate=3e-2, warmup=0, decay=0.5))[0]
    assert not same(without.network, found)  # the trap: a warm-up that is set and not used


def test_training_learns():
    trained = train([run()], Settings(widths=(32,), steps=400, tasks=16, samples=8, rate=3e-3))[0]
    assert trained.losses[-1] < 0.3 * trained.losses[0]
    assert trained.steps == 400 and len(trained.losses) == 16


@pytest.mark.parametrize("stream", ["tasks", "inputs", "encoding"])
def test_streams_do_not_touch_one_another(stream):
    """The trap: one key for everything. Each seed changes its own arrays, and no others."""
    few = encodings.FewShot(FAMILY, shots=2)
    base = batches(Streams(), encoding=few).block(3, torch.device("cpu"))
    other = batches(Streams(**{stream: 1}), encoding=few).block(3, torch.device("cpu"))
    same_z, same_x = [
        np.array_equal(a, b)
        for a, b in zip(
            *((s._weights(20, 3), s._inputs(20, 3)) for s in (batches(Streams()), batches(Streams(**{stream: 1})))),
            strict=True,
        )
    ]
    assert same_z is (stream != "tasks") and same_x is (stream != "inputs")
    assert torch.equal(base[1], other[1]) is (stream != "inputs")
    assert torch.equal(base[0], other[0]) is (stream == "inputs")  # few-shot encodings show tasks, on x of their own
    initial = [mlp((5, 4, 2), s) for s in (0, 1)]
    assert not same(*initial) and same(initial[0], mlp((5, 4, 2), 0))


def test_training_and_held_out_tasks_do_not_share_anything():
    """The trap: test batches that are the first training batches."""
    train_z, held_z = (batches(Streams(), p).block(0, torch.device("cpu"))[0] for p in (SPLIT.train, SPLIT.held_out))
    on = {tuple(row.tolist()) for row in (train_z != 0).reshape(-1, 6)}
    assert not on & {tuple(row.tolist()) for row in (held_z != 0).reshape(-1, 6)}
    blocks = [batches(Streams()).block(n, torch.device("cpu"))[1] for n in (0, 1)]
    assert not torch.equal(*blocks)  # fresh samples in every block


def test_batches_are_the_family():
    shown, x, y = batches(Streams.of(4)).block(1, torch.device("cpu"))
    assert shown.shape == (4, 5, 6) and x.shape == (4, 5, 3, 3) and y.shape == (4, 5, 3, 2)
    wanted = FAMILY(x.flatten(0, 1).double(), shown.flatten(0, 1).double())
    assert torch.allclose(y.flatten(0, 1).double(), wanted, atol=1e-5)
    assert x.min() >= -1 and x.max() <= 1 and x.std() > 0.5
    assert SPLIT.train.contains(splits_of(shown)).all()


def splits_of(z):
    """Supports (n, 6) of tasks, padded with -1."""
    on = (z.reshape(-1, 6) != 0).numpy()
    return np.where(on, np.arange(6), -1)


def test_the_scale_is_the_familys_whatever_is_active():
    """The trap: z divided by sqrt(K) in the network's input. The network is shown the raw z."""
    shown, _, _ = batches(Streams()).block(0, torch.device("cpu"))
    levels = {float(np.float32(v)) for v in shown.unique().tolist()}
    assert levels <= {0.0, *(float(np.float32(v / 10)) for v in range(5, 11))}


def test_a_population_is_its_members():
    """On a CPU each member ends with the bytes it has alone (with as many threads)."""
    together = train([run(0), run(1), run(2)], TINY)
    for seed, one in enumerate(together):
        assert same(one.network, train([run(seed)], TINY, threads=1)[0].network)
    assert not same(together[0].network, together[1].network)


def test_progress_and_results_are_reported_as_they_come():
    steps, ended = [], []
    train([run(0), run(1)], TINY, progress=lambda *a: steps.append(a), finished=lambda i, t: ended.append((i, t.steps)))
    assert steps[-1] == (120, 120) and sorted(ended) == [(0, 60), (1, 60)]


class Killed(Exception):
    pass


def interrupted(folder, after):
    """Train until so many steps are done, then fail in the thread that called."""

    def stop(done, total):
        if done >= after:
            raise Killed

    with pytest.raises(Killed):
        train([run(0), run(1)], LONG, checkpoint=folder, progress=stop)


LONG = Settings(widths=(64, 64), steps=1500, tasks=16, samples=8, rate=1e-2)


@pytest.fixture(scope="module")
def straight():
    """Two runs that nothing stopped."""
    return train([run(0), run(1)], LONG)


def test_a_stopped_run_ends_with_the_same_bytes(tmp_path, straight):
    interrupted(tmp_path, 100)
    left = list(tmp_path.glob("*.checkpoint"))
    assert left
    resumed = train([run(0), run(1)], LONG, checkpoint=tmp_path)
    for a, b in zip(resumed, straight, strict=True):
        assert same(a.network, b.network) and a.losses == b.losses
    assert not list(tmp_path.glob("*.checkpoint"))  # not needed any more


def test_a_killed_process_ends_with_the_same_bytes(tmp_path):
    script = textwrap.dedent("""
        import sys, verify.training.runs as runs
        from theory import Hyperteacher, Supports, splits
        from verify.training import Run, Settings, train
        runs.EVERY = 0.0  # a checkpoint after every block
        family = Hyperteacher.sample(6, 2, 3, (4,), 2, "discrete", seed=0)
        pool = splits.random(Supports(6, 2), 0.3, 0).train
        long = Settings(widths=(64, 64), steps=100000, tasks=16, samples=8)
        train([Run(family, pool, 0)], long, checkpoint=sys.argv[1])
    """)
    process = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)])
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("*.checkpoint")) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.3)
    process.send_signal(signal.SIGKILL)
    process.wait()
    (left,) = tmp_path.glob("*.checkpoint")
    from safetensors import safe_open

    with safe_open(left, framework="pt") as stored:
        block = int(stored.metadata()["block"])
        parameters = stored.get_tensor("parameters_0")
    assert block > 0
    settings = Settings(widths=(64, 64), steps=25 * block, tasks=16, samples=8)
    straight = train([run(0)], settings)[0].network
    flat = torch.cat([m.weight.flatten() for m in straight if isinstance(m, nn.Linear)])
    assert torch.equal(flat, parameters)


@pytest.mark.parametrize("harm", ["cut", "empty", "text", "settings"])
def test_checkpoints_that_do_not_serve_are_said_and_not_used(tmp_path, harm, capfd, straight):
    interrupted(tmp_path, 100)
    for left in tmp_path.glob("*.checkpoint"):
        data = left.read_bytes()
        if harm == "settings":  # the right name, but of a run with other settings
            data = data.replace(left.name.removesuffix(".checkpoint").encode(), b"0" * 32)
        left.write_bytes({"cut": data[: len(data) // 2], "empty": b"", "text": b"hello"}.get(harm, data))
    again = train([run(0), run(1)], LONG, checkpoint=tmp_path)
    assert "is not used" in capfd.readouterr().err
    assert same(again[0].network, straight[0].network)


def test_training_goes_on_from_given_weights():
    initial = mlp((9, 8, 7, 2), 5)
    one = Settings(widths=(8, 7), steps=1, tasks=5, samples=3, rate=1e-8, decay=0.0)
    near = train([run(initial=initial)], one)[0].network
    for a, b in zip(near.parameters(), initial.parameters(), strict=True):
        assert torch.allclose(a, b, atol=1e-6)
    assert_refused(lambda: train([run(initial=mlp((9, 8, 2), 0))], TINY), ["initial", "(9, 8, 7, 2)"])


def test_the_initialisation_is_lecuns():
    network = mlp((400, 300, 2), 0)
    weight = network[0].weight
    assert weight.std().item() == pytest.approx(400**-0.5, rel=0.02)
    assert weight.abs().max().item() <= 2 / 400**0.5 / 0.8796 + 1e-6
    assert network[0].bias.abs().max() == 0


def test_refusals():
    for wrong in ({"widths": ()}, {"widths": (0,)}, {"widths": (1.5,)}, {"steps": 0}, {"tasks": 0}, {"samples": -1},
                  {"rate": 0.0}, {"rate": -1e-3}, {"rate": float("nan")}, {"decay": -1}, {"warmup": -1}):  # fmt: skip
        assert_refused(lambda w=wrong: Settings(**w), [next(iter(wrong))])
    assert_refused(lambda: run(-1), ["seed"])
    assert_refused(lambda: Run(Words.sample(3, 2, 2, 0), SPLIT.train), ["no module weights"])
    other = Run(FAMILY, SPLIT.train, encoding=encodings.make("tokens", FAMILY))
    assert_refused(lambda: train([run(), other], TINY), ["different network sizes"])
    if not torch.cuda.is_available():
        assert_refused(lambda: train([run()], TINY, device="cuda"), ["cuda"])
