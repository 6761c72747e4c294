"""The gallery of the site: reports of real runs, made while the site is built, each by the commands beside it."""

import os
import shlex
import subprocess
import sys
from dataclasses import dataclass

TRAIN = """\
import torch
from torch import nn

model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
optimizer = torch.optim.AdamW(model.parameters())
for step in range(200):
    model(torch.randn(64, 256)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@dataclass(frozen=True)
class Report:
    """One report: what it shows, and the commands that make it; the last one writes the file."""

    file: str
    title: str
    shows: str
    commands: tuple[str, ...]


REPORTS = (
    Report("resnet18.html", "A forward of ResNet-18", "times of this machine, its roofline, what to change first",
           ("flopsight profile zoo:resnet18 --repeats 5 -o resnet18.json -o resnet18.html",)),
    Report("resnet18-step.html", "A training step of ResNet-18", "forward, backward and optimizer, memory over the step",
           ("flopsight profile zoo:resnet18 --train --optimizer adamw --repeats 3 -o resnet18-step.html",)),
    Report("two-sizes.html", "What a change costs", "ResNet-18 with a batch of four beside a batch of eight, module by module",
           ("flopsight profile zoo:resnet18 --meta -o four.json", "flopsight profile zoo:resnet18 --meta -i 8x3x224x224 -o eight.json",
            "flopsight diff four.json eight.json -o two-sizes.html")),
    Report("llama-70b.html", "Llama 3.1 70B on meta", "a model that is not on this machine, with the limits of an H100",
           ("flopsight profile hf:llama-3.1-70b --meta --train -i 1x4096 --on h100-sxm -o llama-70b.html",)),
    Report("one-rank.html", "One rank of a mesh", "what one of 64 GPUs holds, computes and sends",
           ("flopsight profile hf:llama-3.1-70b --meta --train -i 1x4096 --mesh fsdp=8,tp=8 -o one-rank.html",)),
    Report("plan.html", "A plan for 64 GPUs", "meshes that fit, the fastest first, with the parts of the predicted step",
           ("flopsight plan hf:llama-3.1-8b --gpus 64 --on h100-sxm --batch 256 --seq 8k -o plan.html",)),
    Report("serving.html", "What serving takes", "first token, tokens a second and the cache, along batch and prompt",
           ("flopsight sweep hf:llama-3.1-8b batch=1,8,64 seq=2k,8k --meta --generate 128 --on h100-sxm -o serving.html",)),
    Report("run.html", "A monitored run", "steps over time, slow steps marked",
           ("flopsight run --monitor -o run.json train.py", "flopsight show run.json -o run.html")),
)  # fmt: skip


def make(folder):
    """Run the commands of every report in a folder; what they print is dropped."""
    folder.mkdir(parents=True)
    (folder / "train.py").write_text(TRAIN)
    for report in REPORTS:
        for command in report.commands:
            words = [sys.executable, "-m", *shlex.split(command)]
            done = subprocess.run(
                words,
                cwd=folder,
                env={**os.environ, "HF_HUB_OFFLINE": "1"},
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                raise SystemExit(f"{command}\n{done.stdout}{done.stderr}")
    for path in folder.iterdir():
        if path.suffix != ".html":
            path.unlink()


HEAD = """\
# Gallery

Reports as the commands beside them write them, made on the machine that built this site. Each is one file that works without a network; click
into them here, or open one alone.
"""


def page():
    """The page that leads to the reports."""
    parts = [HEAD]
    for report in REPORTS:
        commands = "\n".join(report.commands)
        parts.append(
            f"## {report.title}\n\n[Open the report](reports/{report.file}): {report.shows}.\n\n```bash\n{commands}\n```\n\n"
            f'<iframe class="report" src="reports/{report.file}" title="{report.title}" loading="lazy"></iframe>\n'
        )
    parts.append(f"The script of the last one:\n\n```python\n{TRAIN}```\n")
    return "\n".join(parts)
