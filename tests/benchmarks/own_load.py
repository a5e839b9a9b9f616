"""Our load generator as a process of its own, the way a study runs it: records on disk, figures in one JSON file."""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

from autotune.benchmark.cell_load import CellLoad, find_complaints
from autotune.benchmark.client import ChatClient, RequestLimits, render_request
from autotune.benchmark.event_loop import run
from autotune.benchmark.record_file import RecordFile
from autotune.settings import SamplingSettings

LIMITS = RequestLimits(connect_s=10, first_token_s=60, gap_s=60, request_s=600)


async def load(url: str, prompts: list[str], concurrency: int, tokens: int, records: Path) -> dict[str, object]:
    """Send every prompt once and say what was measured; ``chunk_at_s`` holds the chunk times of each request by seed."""
    requests = [
        render_request(
            prompt_id=f"p{seed}",
            repeat=0,
            model="tokens",
            messages=(("user", prompt),),
            sampling=SamplingSettings(),
            seed=seed,
            max_tokens=tokens,
            ignore_eos=True,
        )
        for seed, prompt in enumerate(prompts)
    ]
    async with ChatClient(url, LIMITS) as client:
        with RecordFile(records) as file:
            repeat = await CellLoad(client, file, concurrency, time.perf_counter).measure(requests)
        lateness = client.lateness.take()
    whole = [record for record in repeat.records if record.is_ok]
    output = sum(record.output_tokens or 0 for record in whole)
    ttft = [record.ttft_s for record in whole if record.ttft_s is not None]
    return {
        "succeeded": len(whole),
        "output_tokens": output,
        "tokens_per_s": output / repeat.duration_s,
        "ttft_s": statistics.fmean(ttft),
        "complaints": find_complaints(repeat.records, lateness),
        "late_p99_s": lateness.p99_s,
        "chunk_at_s": {str(record.seed): record.chunk_at_s for record in whole},
    }


def main() -> None:
    """Run one load."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("prompts", type=Path, help="JSON lines with a text or prompt each")
    parser.add_argument("--concurrency", type=int, required=True)
    parser.add_argument("--tokens", type=int, required=True)
    parser.add_argument("--records", type=Path, required=True)
    parser.add_argument("--result", type=Path, required=True)
    arguments = parser.parse_args()
    prompts = [json.loads(line)["prompt"] for line in arguments.prompts.read_text().splitlines()]
    result = run(load(arguments.url, prompts, arguments.concurrency, arguments.tokens, arguments.records))
    arguments.result.write_text(json.dumps(result))


if __name__ == "__main__":
    main()
