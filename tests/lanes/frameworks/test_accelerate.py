"""A loop that Accelerate runs, with gradient accumulation and a tracker."""

import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, GradientState
from lanes.frameworks import tiny_llama
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import flopsight
from flopsight.integrations.accelerate import step_profiler


@pytest.fixture(autouse=True)
def _fresh_state():
    """Accelerate keeps its settings for the whole process."""
    yield
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()


def train(accelerator, batches, steps, **options):
    model = tiny_llama.model().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = torch.utils.data.DataLoader(tiny_llama.dataset(batches * tiny_llama.BATCH), batch_size=tiny_llama.BATCH)
    model, optimizer, data = accelerator.prepare(model, optimizer, data)
    with step_profiler(accelerator, model, optimizer, steps=steps, **options) as prof:
        for batch in data:
            with accelerator.accumulate(model):
                accelerator.backward(model(**batch).loss)
                optimizer.step()
                optimizer.zero_grad()
            prof.step()
    return prof


def test_every_module_costs_what_count_says(tmp_path):
    prof = train(Accelerator(cpu=True), 6, range(1, 4))

    expected = flopsight.count(tiny_llama.model().train(), kwargs=tiny_llama.batch(), train=True)
    assert prof.profile.macs == tiny_llama.macs()
    for node in expected.walk():
        if node.path not in ("", "<outside>"):
            found = prof.profile[node.path]
            assert (found.forward, found.backward) == (node.forward, node.backward), node.path
    assert prof.profile.root.optimizer_bytes >= 2 * 4 * tiny_llama.parameters()


def test_a_step_is_over_when_gradients_are_synchronized():
    prof = train(Accelerator(cpu=True, gradient_accumulation_steps=2), 8, range(1, 3))

    assert prof.profile.macs == 2 * tiny_llama.macs()
    assert prof.profile.batch_size == 2 * tiny_llama.BATCH
    assert len(prof.profile.timing.optimizer.samples) == 1


def test_autocast_by_the_accelerator_is_counted_in_its_dtype():
    prof = train(Accelerator(cpu=True, mixed_precision="bf16"), 6, range(1, 4))

    products = {row.dtype for node in prof.profile.walk() for row in node.ops if row.cost.macs}
    assert prof.profile.macs == tiny_llama.macs()
    assert products == {"bfloat16"}


def test_the_figures_reach_the_accelerators_trackers(tmp_path):
    accelerator = Accelerator(cpu=True, log_with="tensorboard", project_dir=tmp_path)
    accelerator.init_trackers("events")

    train(accelerator, 5, range(1, 3), save_to=tmp_path / "profile.json")
    accelerator.end_training()

    events = EventAccumulator(str(tmp_path / "events")).Reload()
    assert [event.value for event in events.Scalars("flopsight/macs")] == [tiny_llama.macs()]
    assert flopsight.load(tmp_path / "profile.json").params == tiny_llama.parameters()


def test_a_loop_that_ends_early_says_so():
    with pytest.warns(UserWarning, match="Training ended after 3 steps, before step 10"):
        prof = train(Accelerator(cpu=True), 3, range(10, 12))

    assert prof.profile is None
