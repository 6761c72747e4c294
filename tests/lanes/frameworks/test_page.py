"""The Python of docs/frameworks.md, each block with the objects that its framework gives."""

import re
from pathlib import Path

import lightning.pytorch as pl
import torch
from accelerate import Accelerator
from lanes.frameworks import tiny_llama
from lanes.frameworks.test_accelerate import _fresh_state  # noqa: F401
from lanes.frameworks.test_lightning import Classifier, convolution_macs, loader
from lanes.frameworks.test_trainer import make_trainer

from flopsight.integrations import lightning, transformers
from flopsight.integrations.accelerate import step_profiler

PAGE = Path(__file__).parents[3] / "docs/frameworks.md"


def block(heading):
    """The first block of Python below a heading."""
    _, _, below = PAGE.read_text(encoding="utf-8").partition(f"## {heading}\n")
    return re.search(r"```py\n(.*?)```", below.partition("\n## ")[0], re.DOTALL)[1]


def cell(framework):
    """What the table of `monitor` says to write in a framework."""
    _, _, below = PAGE.read_text(encoding="utf-8").partition("## Every step\n")
    (line,) = re.findall(rf"^\| {framework} \| `(.*?)`", below, re.MULTILINE)
    return line


def run(heading, folder, monkeypatch, **names):
    monkeypatch.chdir(folder)
    exec(block(heading), names)
    return names


def test_the_trainer(tmp_path, monkeypatch, capsys):
    names = run("transformers' Trainer", tmp_path, monkeypatch, trainer=make_trainer(tmp_path, max_steps=8))

    assert names["callback"].profile.macs == tiny_llama.macs()
    assert (tmp_path / "profile.json").exists()
    assert "LlamaForCausalLM" in capsys.readouterr().out


def test_accelerate(tmp_path, monkeypatch):
    model = tiny_llama.model().train()
    data = torch.utils.data.DataLoader(tiny_llama.dataset(8 * tiny_llama.BATCH), batch_size=tiny_llama.BATCH)
    given = {"accelerator": Accelerator(cpu=True), "model": model, "data": data}

    names = run("Accelerate", tmp_path, monkeypatch, **given, optimizer=torch.optim.AdamW(model.parameters(), lr=1e-3))

    assert names["prof"].profile.macs == tiny_llama.macs()


def quiet_trainer(**options):
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    return pl.Trainer(max_epochs=1, enable_checkpointing=False, **quiet, **options)


def test_lightning(tmp_path, monkeypatch):
    names = run("Lightning", tmp_path, monkeypatch, Trainer=quiet_trainer, module=Classifier(), data=loader(8))

    assert names["callback"].profile.macs == convolution_macs()


def test_the_trainer_is_monitored(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trainer = make_trainer(tmp_path, max_steps=10)

    exec(cell("transformers"), {"trainer": trainer, "FlopsightCallback": transformers.FlopsightCallback})
    trainer.train()

    assert len((tmp_path / "run.jsonl").read_text().splitlines()) >= 1


def test_lightning_is_monitored(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"Trainer": quiet_trainer, "FlopsightCallback": lightning.FlopsightCallback}

    trainer = eval(cell("Lightning"), names)
    trainer.fit(Classifier(), loader(8))

    (callback,) = [each for each in trainer.callbacks if isinstance(each, lightning.FlopsightCallback)]
    assert callback.run.steps == 8


def test_accelerate_is_monitored():
    model = tiny_llama.model().train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    names = {"accelerator": Accelerator(cpu=True), "model": model, "optimizer": optimizer}
    loop = "    for _ in range(3):\n        model(**batch).loss.backward()\n        optimizer.step()\n        live.step()\n"

    exec(
        f"{cell('Accelerate')}\n{loop}",
        names | {"batch": tiny_llama.batch()} | {"step_profiler": step_profiler},
        kept := {},
    )

    assert kept["live"].run.steps == 3
