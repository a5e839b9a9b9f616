"""The page: complete, self-contained, and harmless whatever logs and answers hold."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import pytest

from autotune.export.findings import find
from autotune.export.report import render_report
from autotune.study_view import StudyView
from autotune.trial import Figure, TrialState
from tests.stored_study import EVIL, SECRET


class Page(HTMLParser):
    """Elements and visible text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in {"meta", "br"}:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))


def render(view) -> str:
    return render_report(view, find(view), autotune_version="0.1.0", written_at="2026-03-02T06:00:00+00:00")


@pytest.fixture(scope="module")
def html(view):
    return render(view)


@pytest.fixture(scope="module")
def page(html):
    return Page(html)


def test_the_page_is_well_formed(page):
    assert page.open == []


def test_the_page_needs_no_network_and_runs_no_script(page):
    names = {tag for tag, _ in page.elements}
    links = [value for _, attrs in page.elements for name, value in attrs.items() if name in {"src", "href", "action"}]
    handlers = [name for _, attrs in page.elements for name in attrs if name.startswith("on")]

    assert names & {"script", "link", "iframe", "img", "object", "form"} == set()
    assert links == []
    assert handlers == []


def test_untrusted_text_stays_text(html, page):
    assert "<script" not in html
    assert "\x1b" not in html
    assert EVIL.replace("\x1b", "\\x1b") in page.text


def test_secrets_are_not_on_the_page(html):
    """Case 65: values whose names look secret are not printed."""
    assert SECRET not in html
    assert "HF_TOKEN" in html
    assert "--api-key (hidden)" in html


def test_the_recommendation_comes_with_its_reason_and_gains(page):
    assert "Recommended: trial 3 (not proven) budget=8 topk=4 window=none" in page.text
    assert "the largest geometric mean of both gains" in page.text
    assert "110 tokens/s +8.9% against the baseline 95%: 107 to 113; gain -12.4 to +35.4" in page.text
    assert "960 tokens/s +20.6% against the baseline" in page.text


def _with_another_baseline(view: StudyView) -> StudyView:
    """The study after a third boot of the baseline, which measured what the first one did."""
    return replace(view, trials=(*view.trials, replace(view.trials[0], number=len(view.trials))))


def test_gains_within_the_noise_between_boots_come_with_a_warning(view):
    faster = replace(view.trials[-1].objectives.tokens_per_s_c1, value=130.0)
    last = replace(view.trials[-1], objectives=replace(view.trials[-1].objectives, tokens_per_s_c1=faster))
    noisy = replace(view, trials=(*view.trials[:-1], last))

    text = Page(render(_with_another_baseline(noisy))).text

    assert "Recommended: trial 3 (not proven)" in text
    assert (
        "The gain is not proven: boots of the baseline differ by 15.1%, so that no gain can be proven when it is "
        "the best of 5."
    ) in text
    assert "112.2%" not in text


def test_a_gain_beyond_the_noise_between_boots_needs_no_warning(view):
    only_one = replace(view, trials=(view.trials[0], view.trials[3], view.trials[8]))

    text = Page(render(_with_another_baseline(only_one))).text

    assert "Recommended: trial 3 (proven)" in text
    assert "not proven" not in text


def test_a_single_boot_of_the_baseline_comes_with_a_warning(view):
    text = Page(render(replace(view, trials=view.trials[:8]))).text

    assert (
        "The gain is not proven: the noise between boots is unknown: 1 boot of the baseline, three are needed." in text
    )


def test_the_page_of_a_service_says_how_to_apply_and_how_to_undo(view, page):
    deployment = view.settings.deployment.model_copy(update={"kind": "systemd"})
    service = replace(view, settings=view.settings.model_copy(update={"deployment": deployment}))

    text = Page(render(service)).text

    assert "Put it to work: autotune export sample --trial 3 --apply ; take it back: autotune rollback sample" in text
    assert "--apply" not in page.text


def test_a_speed_has_no_interval_that_reaches_below_zero(view):
    trial = view.trials[3]
    cells = tuple(replace(cell, decode_tokens_per_s=Figure(365.0, 4, -87.6, 818.0)) for cell in trial.cells)
    objectives = replace(trial.objectives, tokens_per_s_c1=Figure(365.0, 4, -87.6, 818.0))
    wide = replace(
        view, trials=(*view.trials[:3], replace(trial, cells=cells, objectives=objectives), *view.trials[4:])
    )

    html = render(wide)

    assert "365 (n=4, interval unknown)" in html
    assert "-87.6" not in html


def test_cut_off_answers_come_with_a_warning(view, page):
    """Case 54: a low pass@1 may be the token limit's doing."""
    trial = view.trials[3]
    results = trial.evaluation.results
    cut = tuple(replace(result, verdict=results[-2].verdict) for result in results)
    ill = replace(trial, evaluation=replace(trial.evaluation, results=cut))

    assert "were cut off by the token limit" not in page.text
    assert (
        "10 of 10 answers were cut off by the token limit"
        in Page(render(replace(view, trials=(*view.trials[:3], ill, *view.trials[4:])))).text
    )


def test_every_trial_has_a_row_with_state_configuration_and_reason(view, page):
    rows = re.findall(r"<tr class=[^>]*><td class=\"number\">(\d+)</td><td>(\w+)</td>", render(view))

    assert rows == [(str(trial.number), trial.kind.value) for trial in view.trials]
    for trial in view.trials:
        assert view.space.describe(trial.configuration) in page.text
        assert trial.state.value in page.text
    assert "after stage busy even an optimistic C=1 would be dominated by trial 4" in page.text


def test_equal_points_of_the_front_are_listed_once_with_both_numbers(view):
    """Case 41."""
    twin = replace(view.trials[3], number=9)

    text = Page(render(replace(view, trials=(*view.trials, twin)))).text

    assert "3, 9 budget=8 topk=4 window=none" in text


def test_it_says_how_it_was_measured_and_what_was_running(page):
    for words in (
        "busy: 128 tokens of context, C=32",
        "temperature 0, top_p 1, top_k -1, first seed 1",
        "10, set 5f3c",
        "sampler greybox, seed 1, search space ddtree",
        "server version ddtree 0.1.0",
        "2 boots of the baseline differ by 1.4%",
        "9 boots in 1 min 30 s",
        "autotune 0.1.0",
    ):
        assert words in page.text, words


def test_a_study_without_a_baseline_has_a_page_too(view):
    text = Page(render(replace(view, trials=()))).text

    assert "Nothing yet: the baseline has not been measured." in text
    assert "No trial has both speeds yet." in text


def test_a_study_whose_baseline_stays_says_so(view):
    text = Page(render(replace(view, trials=view.trials[:2]))).text

    assert "Recommended: trial 0 (the baseline)" in text
    assert "the baseline stays" in text
    assert "Nothing to change" in text
    assert "autotune export" not in text
    assert "Cell by cell" not in text


def test_open_trials_do_not_disturb_the_page(view):
    measuring = replace(view.trials[5], number=9, state=TrialState.MEASURING, reason=None, duration_s=None)

    assert "measuring" in Page(render(replace(view, trials=(*view.trials, measuring)))).text


def test_the_plot_is_valid_svg_with_a_mark_for_every_trial_that_measured_something(html):
    svg = ET.fromstring(html[html.index('<svg class="plot"') : html.index("</svg>") + 6])  # noqa: S314
    space = "{http://www.w3.org/2000/svg}"
    kinds = [group.attrib["class"] for group in svg.iter(f"{space}g")]

    assert sorted(kinds) == [
        "another-boot",
        "dominated",
        "dominated",
        "dominated is-baseline",
        "front",
        "front",
        "pruned",
    ]
    assert len(list(svg.iter(f"{space}circle"))) == 1
