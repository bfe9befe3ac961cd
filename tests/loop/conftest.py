"""Lets the tests of this folder import `loop_documents`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
