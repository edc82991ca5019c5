"""Training: gradients, AdamW, streams of their own, populations, and runs that are killed and taken up again."""

import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import theory.encodings
import theory.families.hyperteacher
from constructions import build
from refusals import assert_refused
from theory import Hyperteacher, Supports, Words, encodings, splits
from verify import train
from verify.training import Run, Settings, Streams, mlp
from verify.training import batches as batches_module
from verify.training.batches import Batches
from verify.training.population import Population
from verify.training.products import Products
from verify.training.sessions import Session

CPU = torch.device("cpu")
FAMILY = Hyperteacher.sample(6, 2, 3, (4,), 2, "discrete", seed=0)
SPLIT = splits.random(Supports(6, 2), 0.3, 0)
TINY = Settings(widths=(8, 7), steps=60, tasks=5, samples=3, rate=1e-2)


def run(seed=0, **others):
    return Run(FAMILY, SPLIT.train, seed, **others)


def same(a, b):
    return all(torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters(), strict=True))


def batches(streams, pool=SPLIT.train, encoding=None):
    return Batches(FAMILY, pool, encoding or encodings.make("identity", FAMILY), streams, 5, 3, 4)


def on_rows(shown, x):
    """Rows [shown, x], as an ordinary network takes them."""
    return torch.cat([shown.unsqueeze(-2).expand(*x.shape[:-1], -1), x], dim=-1)


@given(
    st.lists(st.integers(1, 9), min_size=2, max_size=4), st.integers(1, 5), st.integers(1, 5),
    st.integers(0, 99), st.integers(0, 3),
)  # fmt: skip
@settings(max_examples=40)
def test_gradients_are_those_of_autograd(widths, width, inputs, seed, members):
    """For one network and for a population at once, which takes the products that a GPU takes."""
    generator, sizes = torch.Generator().manual_seed(seed), (width + inputs, *widths)
    population = Population(sizes, members, 4, 3, Products(), CPU)
    networks = [mlp(sizes, seed + i) for i in range(max(members, 1))]
    population.load(networks)
    lead = (members,) if members else ()
    shapes = ((4, width), (4, 3, inputs), (4, 3, sizes[-1]))
    shown, x, target = (torch.randn(*lead, *shape, generator=generator) for shape in shapes)
    loss = population.step(shown, x, target)
    for i, network in enumerate(networks):
        at = i if members else ...
        wanted = nn.functional.mse_loss(network(on_rows(shown[at], x[at])), target[at])
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
        shown, x, y = (part[step % 25] for part in source.block(step // 25, CPU))
        optimiser.zero_grad()
        nn.functional.mse_loss(network(on_rows(shown, x)), y).backward()
        for group in optimiser.param_groups:
            group["lr"] = 3e-2 * min(1.0, (step + 1) / 7)
        optimiser.step()
    for a, b in zip(found.parameters(), network.parameters(), strict=True):
        assert torch.allclose(a, b, rtol=1e-3, atol=1e-5)
    without = train([run(3)], replace(settings, warmup=0))[0]
    assert not same(without.network, found)  # the trap: a warm-up that is set and not used


def test_training_learns():
    trained = train([run()], Settings(widths=(32,), steps=400, tasks=16, samples=8, rate=3e-3))[0]
    assert trained.losses[-1] < 0.3 * trained.losses[0]
    assert trained.steps == 400 and len(trained.losses) == 16
    assert trained.steps_per_second == 400 / trained.seconds > 0


def test_training_is_in_float32_whatever_torchs_default_is(request):
    wanted = train([run()], TINY)[0].network
    request.addfinalizer(lambda: torch.set_default_dtype(torch.float32))
    torch.set_default_dtype(torch.float64)
    assert same(train([run()], TINY)[0].network, wanted)


@pytest.mark.parametrize("stream", ["tasks", "inputs", "encoding"])
def test_streams_do_not_touch_one_another(stream):
    """The trap: one key for everything. Each seed changes its own arrays, byte for byte, and no others."""
    few = encodings.FewShot(FAMILY, shots=2)
    one, two = (batches(Streams(**{stream: seed}), encoding=few) for seed in (0, 1))
    assert torch.equal(one._weights(3), two._weights(3)) is (stream != "tasks")
    (shown, x, _), (other_shown, other_x, _) = (b.block(3, CPU) for b in (one, two))
    assert torch.equal(x, other_x) is (stream != "inputs")
    assert torch.equal(shown, other_shown) is (stream == "inputs")  # few-shot shows tasks, on x of their own
    assert not same(mlp((5, 4, 2), 0), mlp((5, 4, 2), 1)) and same(mlp((5, 4, 2), 0), mlp((5, 4, 2), 0))


def test_no_two_streams_of_a_seed_are_the_same():
    """The trap once more: with one seed for all, training draws no numbers that made the family, split or encoding."""
    own = [Streams.of(7).generator(s, n) for s in ("tasks", "inputs", "encoding", "initialisation") for n in range(20)]
    teacher = theory.families.hyperteacher._streams(7)
    others = [teacher(part, layer) for part in range(3) for layer in range(20)]
    others += [theory.encodings._stream(7, part) for part in range(3)]
    others += [np.random.default_rng(np.random.SeedSequence(7, spawn_key=key)) for key in ((), (0,), (1,), (0, 0, 0))]
    drawn = [tuple(g.integers(2**63, size=2)) for g in own]
    assert len(set(drawn)) == len(own)
    assert not set(drawn) & {tuple(g.integers(2**63, size=2)) for g in others}


def test_training_and_held_out_tasks_do_not_share_anything():
    """The trap: test batches that are the first training batches."""
    train_z, held_z = (batches(Streams(), p).block(0, CPU)[0] for p in (SPLIT.train, SPLIT.held_out))
    on = {tuple(row.tolist()) for row in (train_z != 0).reshape(-1, 6)}
    assert not on & {tuple(row.tolist()) for row in (held_z != 0).reshape(-1, 6)}
    blocks = [batches(Streams()).block(n, CPU)[1] for n in (0, 1)]
    assert not torch.equal(*blocks)  # fresh samples in every block


def test_batches_are_the_family():
    shown, x, y = batches(Streams.of(4)).block(1, CPU)
    assert shown.shape == (4, 5, 6) and x.shape == (4, 5, 3, 3) and y.shape == (4, 5, 3, 2)
    wanted = FAMILY(x.flatten(0, 1).double(), shown.flatten(0, 1).double())
    assert torch.allclose(y.flatten(0, 1).double(), wanted, atol=1e-5)
    assert x.min() >= -1 and x.max() <= 1 and x.std() > 0.5
    assert SPLIT.train.contains(splits_of(shown)).all()


def splits_of(z):
    """Supports (n, 6) of tasks, padded with -1."""
    on = (z.reshape(-1, 6) != 0).numpy()
    return np.where(on, np.arange(6), -1)


def test_inputs_fill_the_familys_box():
    family = Hyperteacher.sample(6, 2, 2, (3,), 1, box=([2, -1], [5, -1]), seed=0)
    own = Batches(family, SPLIT.train, encodings.make("identity", family), Streams(), 9, 9, 9)
    x = own.block(0, CPU)[1]
    assert torch.all(x[..., 1] == -1) and 2 <= x[..., 0].min() < 2.1 and 4.9 < x[..., 0].max() <= 5


def test_listing_a_pool_changes_nothing(monkeypatch):
    listed = batches(Streams.of(2)).block(1, CPU)
    monkeypatch.setattr(batches_module, "LISTED", 0)
    drawn = batches(Streams.of(2))
    assert drawn.table is None and all(map(torch.equal, listed, drawn.block(1, CPU)))


def test_the_scale_is_the_familys_whatever_is_active():
    """The trap: z divided by sqrt(K) in the network's input. The network is shown the raw z."""
    shown, _, _ = batches(Streams()).block(0, CPU)
    levels = {float(np.float32(v)) for v in shown.unique().tolist()}
    assert levels <= {0.0, *(float(np.float32(v / 10)) for v in range(5, 11))}


def test_a_population_is_its_members():
    """On a CPU each member ends with the bytes it has alone (with as many threads)."""
    together = train([run(0), run(1), run(2)], TINY)
    for seed, one in enumerate(together):
        assert same(one.network, train([run(seed)], TINY, threads=1)[0].network)
    assert not same(together[0].network, together[1].network)


def test_a_batched_population_is_its_members_up_to_rounding():
    """In one batched computation, as on a GPU."""
    batched = Session([run(0), run(1)], TINY, CPU, 1, None).train(lambda steps: False)
    for one, alone in zip(batched, train([run(0), run(1)], TINY), strict=True):
        assert one.losses == pytest.approx(alone.losses, rel=1e-3)
        for a, b in zip(one.network.parameters(), alone.network.parameters(), strict=True):
            assert torch.allclose(a, b, rtol=1e-2, atol=1e-3)


def test_progress_and_results_are_reported_as_they_come():
    steps, ended = [], []
    train([run(0), run(1)], TINY, progress=lambda *a: steps.append(a), finished=lambda i, t: ended.append((i, t.steps)))
    assert steps[-1] == (120, 120) and sorted(ended) == [(0, 60), (1, 60)]


class Killed(Exception):
    pass


LONG = Settings(widths=(64, 64), steps=1500, tasks=16, samples=8, rate=1e-2)


def interrupted(folder, after):
    """Train until so many steps are done, then fail in the thread that called."""

    def stop(done, total):
        if done >= after:
            raise Killed

    with pytest.raises(Killed):
        train([run(0), run(1)], LONG, checkpoint=folder, progress=stop)


@pytest.fixture(scope="module")
def straight():
    """Two runs that nothing stopped."""
    return train([run(0), run(1)], LONG)


def assert_same_bytes(found, wanted):
    for a, b in zip(found, wanted, strict=True):
        assert same(a.network, b.network) and a.losses == b.losses


def test_a_stopped_run_ends_with_the_same_bytes(tmp_path, straight):
    interrupted(tmp_path, 100)
    assert list(tmp_path.glob("*.checkpoint"))
    resumed = train([run(0), run(1)], LONG, checkpoint=tmp_path)
    assert_same_bytes(resumed, straight)
    assert not list(tmp_path.iterdir())  # not needed any more


def test_a_killed_process_ends_with_the_same_bytes(tmp_path, straight):
    script = textwrap.dedent("""
        import sys
        from theory import Hyperteacher, Supports, splits
        from verify.training import Run, Settings, sessions, train
        sessions.EVERY = 0.0  # a checkpoint after every block
        family = Hyperteacher.sample(6, 2, 3, (4,), 2, "discrete", seed=0)
        pool = splits.random(Supports(6, 2), 0.3, 0).train
        long = Settings(widths=(64, 64), steps=1500, tasks=16, samples=8, rate=1e-2)
        train([Run(family, pool, 0), Run(family, pool, 1)], long, checkpoint=sys.argv[1])
    """)
    process = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)])
    deadline = time.monotonic() + 60
    while len(list(tmp_path.glob("*.checkpoint"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    said = []
    resumed = train([run(0), run(1)], LONG, checkpoint=tmp_path, progress=lambda done, total: said.append(done))
    assert_same_bytes(resumed, straight)


def test_a_result_that_was_not_kept_is_not_lost(tmp_path, straight):
    """Killed between the end of training and the end of ``finished``: the next start hands it over at once."""

    def fails(number, trained):
        raise Killed

    with pytest.raises(Killed):
        train([run(0)], LONG, checkpoint=tmp_path, threads=1, finished=fails)
    started = time.perf_counter()
    again = train([run(0)], LONG, checkpoint=tmp_path, threads=1)
    assert time.perf_counter() - started < again[0].seconds  # which counts what it took before
    assert_same_bytes(again, straight[:1])


@pytest.mark.parametrize("harm", ["cut", "empty", "text", "bit", "settings"])
def test_checkpoints_that_do_not_serve_are_said_and_not_used(tmp_path, harm, capfd):
    def fails(number, trained):
        raise Killed

    with pytest.raises(Killed):
        train([run(0)], TINY, checkpoint=tmp_path, finished=fails)
    (left,) = tmp_path.glob("*.checkpoint")
    data = left.read_bytes()
    flipped = data[:-5] + bytes([data[-5] ^ 1]) + data[-4:]
    if harm == "settings":  # a whole checkpoint, but of a run with other settings
        with pytest.raises(Killed):
            train([run(1)], TINY, checkpoint=tmp_path, finished=fails)
        (other,) = set(tmp_path.glob("*.checkpoint")) - {left}
        data = other.read_bytes()
    left.write_bytes({"cut": data[: len(data) // 2], "empty": b"", "text": b"hello", "bit": flipped}.get(harm, data))
    again = train([run(0)], TINY, checkpoint=tmp_path)
    message = capfd.readouterr().err
    assert "is not used" in message and message.count("\n") == 1
    assert_same_bytes(again, train([run(0)], TINY))


def test_a_checkpoint_is_bound_to_everything_that_a_run_is(tmp_path):
    other_family = Hyperteacher.sample(6, 2, 3, (4,), 2, "discrete", seed=1)
    other_pool = splits.random(Supports(6, 2), 0.3, 1).train
    runs = [
        run(), run(1), run(label="other"), Run(other_family, SPLIT.train), Run(FAMILY, other_pool),
        run(encoding=encodings.make("orthogonal", FAMILY)), run(initial=mlp((9, 8, 7, 2), 5)),
        *[run(streams=Streams(**{name: 1})) for name in ("tasks", "inputs", "encoding", "initialisation")],
    ]  # fmt: skip
    digests = [Session([one], TINY, CPU, 1, tmp_path).digest for one in runs]
    digests.append(Session(runs[:1], TINY, CPU, 2, tmp_path).digest)
    for change in ({"steps": 61}, {"tasks": 6}, {"samples": 4}, {"rate": 1e-3}, {"warmup": 1}, {"decay": 0.0}):
        digests.append(Session(runs[:1], replace(TINY, **change), CPU, 1, tmp_path).digest)
    assert len(set(digests)) == len(digests)
    assert digests[0] == Session([run()], TINY, CPU, 1, tmp_path).digest


def test_training_goes_on_from_given_weights():
    initial = mlp((9, 8, 7, 2), 5)
    one = Settings(widths=(8, 7), steps=1, tasks=5, samples=3, rate=1e-8, decay=0.0)
    near = train([run(initial=initial)], one)[0].network
    for a, b in zip(near.parameters(), initial.parameters(), strict=True):
        assert torch.allclose(a, b, atol=1e-6)
    exact = build(FAMILY, method="exact", dtype=torch.float32)
    trained = train([run(initial=exact.as_sequential())], replace(one, widths=exact.widths))[0]
    assert trained.losses[0] < 1e-10  # the constructed network starts where training would end
    for wrong in (mlp((9, 8, 2), 0), exact.as_sequential()):
        assert_refused(lambda w=wrong: train([run(initial=w)], TINY), ["initial", "(9, 8, 7, 2)"])
    for wrong in (nn.Linear(9, 2, bias=False), nn.Sequential(nn.Linear(9, 8), nn.Tanh(), nn.Linear(8, 2))):
        assert_refused(lambda w=wrong: train([run(initial=w)], TINY), ["network", "Linear"])


def test_training_that_diverges_is_refused():
    assert_refused(lambda: train([run()], replace(TINY, rate=1e30)), ["rate", "1e+30", "smaller"])


def test_the_initialisation_is_lecuns():
    network = mlp((400, 300, 2), 0)
    weight = network[0].weight
    assert weight.std().item() == pytest.approx(400**-0.5, rel=0.02)
    assert weight.abs().max().item() <= 2 / 400**0.5 / 0.8796 + 1e-6
    assert network[0].bias.abs().max() == 0


def test_refusals(tmp_path):
    for wrong in ({"widths": ()}, {"widths": (0,)}, {"widths": (1.5,)}, {"widths": 8}, {"steps": 0}, {"tasks": 0},
                  {"samples": -1}, {"rate": 0.0}, {"rate": -1e-3}, {"rate": float("nan")}, {"rate": "1"},
                  {"decay": -1}, {"decay": float("inf")}, {"warmup": -1}):  # fmt: skip
        assert_refused(lambda w=wrong: Settings(**w), [next(iter(wrong))])
    for seed in (-1, 0.5, True):
        assert_refused(lambda s=seed: run(s), ["seed"])
    assert_refused(lambda: Run(Words.sample(3, 2, 2, 0), SPLIT.train), ["no module weights"])
    larger = Hyperteacher.sample(7, 2, 3, (4,), 2, "discrete", seed=0)
    assert_refused(lambda: run(encoding=encodings.make("identity", larger)), ["encoding", "7", "6"])
    foreign = splits.random(Supports(9, 2), 0.3, 0).train
    assert_refused(lambda: train([Run(FAMILY, foreign)], TINY), ["pool", "0..5"])
    empty = splits.random(Supports(6, 2), 0.3, 0).train
    object.__setattr__(empty, "start", empty.stop)
    assert_refused(lambda: train([Run(FAMILY, empty)], TINY), ["pool", "no supports"])
    other = run(encoding=encodings.make("tokens", FAMILY))
    assert_refused(lambda: train([run(), other], TINY), ["different network sizes"])
    assert_refused(lambda: train([], TINY), ["at least one"])
    assert_refused(lambda: train([run()], TINY, threads=0), ["threads"])
    assert_refused(lambda: train([run()], TINY, device="tpu"), ["device"])
    (tmp_path / "file").write_text("x")
    assert_refused(lambda: train([run()], TINY, checkpoint=tmp_path / "file"), ["checkpoint", "name another"])
    if not torch.cuda.is_available():
        assert_refused(lambda: train([run()], TINY, device="cuda"), ["cuda"])
