"""The tutorials: notebooks that are run with `make tutorials`, kept with what they printed, and shown on the site as pages."""

import os
import re
import sys
import tempfile
from pathlib import Path

TUTORIALS = Path(__file__).parents[1] / "tutorials"
MEASURED = "measured"
"""The tag of a cell that prints times, which are another machine's next time, or predictions, which follow what they are tuned on."""
WHERE = re.compile(r"\([^()]*torch \d[^()]*\)")
"""The device, dtype, batch and release of torch in a headline."""
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def executed(path):
    """A notebook after a run of all its cells, in a folder of its own; an exception in a cell is raised."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    beside = str(Path(sys.executable).parent)
    os.environ["PATH"] = beside + os.pathsep + os.environ["PATH"]
    os.environ.update(COLUMNS="110", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(notebook, timeout=600, resources={"metadata": {"path": folder}}).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = joined([kept(output) for output in cell.outputs if output.get("name") != "stderr"])
    return notebook


def joined(outputs):
    """Neighbouring pieces of one stream as one: where a kernel cuts them depends on the moment."""
    whole = []
    for output in outputs:
        if whole and output.output_type == whole[-1].output_type == "stream":
            whole[-1].text += output.text
        else:
            whole.append(output)
    return whole


def kept(output):
    """An output without what depends on the moment: colours, widgets, numbers of cells."""
    if output.output_type == "stream":
        output.text = COLOURS.sub("", output.text)
    elif "data" in output:
        output.data = {kind: output.data[kind] for kind in ("text/plain", "text/html") if kind in output.data}
    return output


def said(notebook):
    """The text of every cell that is the same on every machine, without the machine's name."""
    texts = [
        "".join(output.get("text") or output.get("data", {}).get("text/plain", "") for output in cell.outputs)
        for cell in notebook.cells
        if cell.cell_type == "code" and MEASURED not in cell.metadata.get("tags", [])
    ]
    return [WHERE.sub("(here)", text) for text in texts]


def page(path):
    """A notebook as Markdown for the site."""
    import json

    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(re.sub(r"\]\(([\w-]+)\.ipynb\)", r"](\1.md)", source))
            continue
        parts.append(f"```python\n{source}\n```")
        parts += [shown(output) for output in cell["outputs"]]
    where = "[This notebook](https://github.com/flopsight/flopsight/blob/main/docs/tutorials/{}) is run by the tests."
    return "\n\n".join([*parts, where.format(path.name)]) + "\n"


def shown(output):
    """An output as a block of text, or as the HTML that a notebook shows."""
    data = output.get("data", {})
    if "text/html" in data:
        return f'<div class="output">\n{"".join(data["text/html"])}\n</div>'
    text = "".join(output.get("text") or data.get("text/plain", ""))
    return f"```text\n{text.rstrip()}\n```"


if __name__ == "__main__":
    import nbformat

    for each in [TUTORIALS / f"{name}.ipynb" for name in sys.argv[1:]] or sorted(TUTORIALS.glob("*.ipynb")):
        nbformat.write(executed(each), each)
        print(each.name, flush=True)
