"""Imports a module that fails, after torch."""

import sys
from pathlib import Path

import torch  # noqa: F401

TEXTS = {"raises": "raise ValueError('x')", "misspelt": "def f(:", "missing": "import not_there_at_all"}
Path("broken.py").write_text(TEXTS[sys.argv[1]])
sys.path.insert(0, str(Path.cwd()))

import broken  # noqa: E402, F401
