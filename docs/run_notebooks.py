"""Runs the notebooks where nothing is in the way, and keeps what they show: `make notebooks`."""

import re
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

for path in sorted((Path(__file__).parent / "notebooks").glob("*.ipynb")):
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        where = {"metadata": {"path": folder}}
        NotebookClient(
            notebook, timeout=3600, resources=where, record_timing=False, coalesce_streams=True
        ).execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":  # Without TensorFlow's messages about machine and files.
            cell.outputs = [o for o in cell.outputs if o.get("name") != "stderr"]
            for output in cell.outputs:
                if output.output_type == "stream":
                    output.text = re.sub(r"(?m)^INFO:tensorflow:.*\n", "", output.text)
    nbformat.write(notebook, path)
    print(path)
