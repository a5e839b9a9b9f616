"""A package laid out as the open pull request of SGLang is, as far as the draft hook sees it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

WORKER: Final = "sglang/srt/speculative/ddtree_worker.py"

UTILS: Final = """
def build_ddtree_tree(draft_logits, tree_budget, device, _out_node_token_ids=None):
    return (draft_logits, tree_budget, device, _out_node_token_ids)
"""

_IMPORT: Final = "from sglang.srt.speculative.ddtree_utils import build_ddtree_tree\n"

WORKER_CLASS: Final = """
class DDTreeWorker:
    def __init__(self, tp_rank):
        self.tp_rank = tp_rank
        self.logits = None
        self.built = None

    def _prepare_for_speculative_decoding(self, batch, draft_input):
        self.built = build_ddtree_tree(
            draft_logits=self.logits, tree_budget=8, device="cpu", _out_node_token_ids=draft_input
        )
"""


def write_layout(folder: Path) -> Path:
    """Write the package into a folder, which is returned; a builder returns its arguments, so that all can be compared."""
    package = (folder / WORKER).parent
    package.mkdir(parents=True)
    for each in (package, package.parent, package.parent.parent):
        (each / "__init__.py").touch()
    (package / "ddtree_utils.py").write_text(UTILS)
    (folder / WORKER).write_text(_IMPORT + WORKER_CLASS)
    return folder
