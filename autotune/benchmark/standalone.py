"""How is a server measured that nobody tunes: what does it take, which cells are measured, what came out?"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from autotune import __version__
from autotune.api_key import ApiKey
from autotune.benchmark.api_fields import CANDIDATES, ApiFields, choose_fields
from autotune.benchmark.benchmark import Benchmark
from autotune.benchmark.client import ChatClient, RequestLimits, render_request
from autotune.benchmark.event_loop import run
from autotune.benchmark.request_record import RequestRecord
from autotune.benchmark.saved_result import BenchmarkResult, CellResult, PromptResult
from autotune.benchmark.server_probe import ServerProbe
from autotune.errors import AutotuneError, MeasurementError, ServerError, SettingsError, UsageMissing, UserError
from autotune.settings import BenchmarkSettings, CellSettings

_ENDPOINT = "/v1/chat/completions"
_LARGEST_PORT = 65535


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server that answered.

    Attributes:
        url: base URL.
        model: name to ask for.
        fields: what requests may state.
        version: as the server calls it; ``None`` when it does not say.
    """

    url: str
    model: str
    fields: ApiFields
    version: str | None


def parse_url(text: str) -> str:
    """Return the base URL of what a user calls the address of a server.

    >>> [parse_url(text) for text in ("gpu1:30000", "http://gpu1:30000/v1/", "https://api.example.com/openai/v1")]
    ['http://gpu1:30000', 'http://gpu1:30000', 'https://api.example.com/openai']

    Raises:
        ValueError: it is no address of a server.
    """
    import httpx  # noqa: PLC0415  # what is never called needs no HTTP

    text = text.strip()
    try:
        url = httpx.URL(text if "://" in text else f"http://{text}")
    except httpx.InvalidURL as error:
        raise ValueError(f"{text!r} is no URL: {error}; write for example http://127.0.0.1:30000") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError(f"{text!r} is no address of a server; write for example http://127.0.0.1:30000")
    if url.userinfo:
        raise ValueError("a URL with a password shows it to everybody; name an API key with --api-key-variable")
    if url.query or url.fragment:
        raise ValueError(f"{text!r} has more than an address; write for example http://127.0.0.1:30000")
    if url.port is not None and not 1 <= url.port <= _LARGEST_PORT:
        raise ValueError(f"{url.port} is no port; write for example http://127.0.0.1:30000")
    path = url.path.rstrip("/").removesuffix("/chat/completions").removesuffix("/v1")
    return str(url.copy_with(path=path or "/")).rstrip("/")


def connect(
    url: str,
    settings: BenchmarkSettings,
    *,
    model: str | None = None,
    api_key: ApiKey | None = None,
    candidates: Sequence[ApiFields] = CANDIDATES,
) -> Endpoint:
    """Ask a server for its model and for one short answer, and find out which fields it takes.

    Args:
        url: base URL.
        settings: what will be sent.
        model: name of the model; ``None`` is the first one that the server lists.
        api_key: opens its API.
        candidates: which fields may be used, see :mod:`autotune.benchmark.api_fields`.

    Raises:
        ServerError: nothing answers there.
        UserError: it refuses the key, has no such model, or offers no chat.
        UsageMissing: it does not count tokens.
    """
    return run(_connect(url, settings, model, api_key, candidates))


async def _connect(
    url: str,
    settings: BenchmarkSettings,
    model: str | None,
    api_key: ApiKey | None,
    candidates: Sequence[ApiFields],
) -> Endpoint:
    limits = RequestLimits(
        settings.connect_timeout_s,
        settings.first_token_timeout_s,
        settings.gap_timeout_s,
        settings.request_timeout_s,
    )
    async with (
        ServerProbe(url, settings.connect_timeout_s, api_key=api_key) as probe,
        ChatClient(url, limits, api_key=api_key) as client,
    ):
        name = model or await probe.fetch_model()

        async def ask(fields: ApiFields) -> RequestRecord:
            request = render_request(
                prompt_id="hello",
                repeat=0,
                model=name,
                messages=(("user", "Say hello."),),
                sampling=settings.sampling,
                seed=settings.sampling.seed,
                max_tokens=4,
                ignore_eos=False,
                fields=fields,
            )
            return await client.ask(request)

        fields, record = await choose_fields(ask, candidates)
        if not record.is_ok:
            raise explain_refusal(url, name, record.error or record.outcome.value)
        if record.output_tokens is None:
            raise UsageMissing(
                "the server answers without counting its tokens",
                where=url,
                hint="it must honour stream_options.include_usage; without a count there is no speed",
            )
        return Endpoint(url, name, fields, (await probe.fetch_info()).version)


def explain_refusal(url: str, model: str, error: str) -> AutotuneError:
    """Say what to do about a server that does not answer the first request."""
    where = f"{url}{_ENDPOINT}"
    if error.startswith(("HTTP 401", "HTTP 403")):
        return SettingsError(
            f"the server refuses access: {error}",
            where=where,
            hint="export its key, for example as OPENAI_API_KEY, and add --api-key-variable OPENAI_API_KEY",
        )
    if error.startswith("HTTP 3"):
        return UserError(
            f"the server is elsewhere: {error}", where=where, hint="give the address to which it redirects"
        )
    if error.startswith("HTTP 429"):
        return ServerError(
            f"the server takes no more requests now: {error}",
            where=where,
            hint="wait, then ask for less at once: a lower --concurrency, or with bench a --rate",
        )
    if error.startswith("HTTP 404"):
        return UserError(
            f"the server offers no such API, or no model {model!r}: {error}",
            where=where,
            hint="see what it serves with `curl URL/v1/models`, then name it with --model, or correct the URL",
        )
    if error.startswith(("HTTP 400", "HTTP 422")):
        return UserError(
            f"the server refuses every request: {error}",
            where=where,
            hint="the message says what it does not take; --model, --temperature and --top-p change what is sent",
        )
    if error.startswith(("ConnectError", "ConnectTimeout")):
        return ServerError(
            f"nothing answers: {error}",
            where=url,
            hint="start the server, or correct the address; `autotune serve` starts the embedded one on port 30000",
        )
    return ServerError(f"the server does not answer a short request: {error}", where=where, hint="see the server's log")


class StandaloneBenchmark:
    """Measures the cells of some settings, one after the other; a cell that fails does not end the others.

    Args:
        endpoint: a server that answered.
        settings: what is sent.
        records_path: JSON lines, see :class:`autotune.benchmark.benchmark.Benchmark`.
        keep_records: whether the file outlives the benchmark.
        api_key: opens the server's API.
        on_record: told of each request as it ends.
        on_cell: told of each cell as it ends, and of everything so far.
        now: UTC.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        settings: BenchmarkSettings,
        records_path: Path,
        *,
        keep_records: bool,
        api_key: ApiKey | None = None,
        on_record: Callable[[RequestRecord], None] = lambda _record: None,
        on_cell: Callable[[CellResult, BenchmarkResult], None] = lambda _cell, _result: None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._endpoint = endpoint
        self._settings = settings
        self._records_path = records_path
        self._keep_records = keep_records
        self._api_key = api_key
        self._on_record = on_record
        self._on_cell = on_cell
        self._now = now
        self._prompts: dict[str, PromptResult] = {}

    def run(self) -> BenchmarkResult:
        """Measure every cell.

        Raises:
            OSError: the records cannot be written.
        """
        result = BenchmarkResult(
            url=self._endpoint.url,
            model=self._endpoint.model,
            server_version=self._endpoint.version,
            api=self._endpoint.fields.description,
            autotune=__version__,
            started_at=self._say_now(),
            ended_at=None,
            settings=self._settings,
            cells=(),
            records=str(self._records_path) if self._keep_records else None,
        )
        benchmark = Benchmark(
            self._endpoint.url,
            self._settings,
            self._records_path,
            clock=time.perf_counter,
            speculative=None,
            api_key=self._api_key,
            model=self._endpoint.model,
            fields=self._endpoint.fields,
            on_record=self._take,
        )
        cells = [cell for stage in self._settings.stages for cell in stage.cells]
        for cell in cells:
            measured = self._measure(benchmark, cell)
            result = dataclasses.replace(result, cells=(*result.cells, measured))
            if len(result.cells) == len(cells):
                result = dataclasses.replace(result, ended_at=self._say_now())
            self._on_cell(measured, result)
        return result

    def _measure(self, benchmark: Benchmark, cell: CellSettings) -> CellResult:
        self._prompts = {}
        try:
            measurement = benchmark.measure_cell(cell)
        except MeasurementError as error:
            return CellResult(cell, None, f"{error.message} ({error.hint})" if error.hint else error.message)
        return CellResult(cell, measurement, prompts=self._prompts)

    def _take(self, record: RequestRecord) -> None:
        """Keep how a measured request fared; a prompt that is sent again keeps its first answer."""
        if record.repeat >= 0 and record.is_ok and record.prompt_id not in self._prompts:
            asked_at_s = record.sent_at_s if record.due_at_s is None else record.due_at_s
            last_s = record.chunk_at_s[-1] - asked_at_s if record.chunk_at_s else None
            self._prompts[record.prompt_id] = PromptResult(
                record.prompt_tokens, record.output_tokens, record.ttft_s, last_s
            )
        self._on_record(record)

    def _say_now(self) -> str:
        return self._now().isoformat(timespec="seconds")
