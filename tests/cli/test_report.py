"""`autotune report` writes a file and says where."""

from __future__ import annotations


def test_the_report_goes_into_the_study_directory(run, stored):
    result = run("report")

    assert result.exit_code == 0
    assert result.stdout == ""
    assert result.stderr == "wrote studies/sample/report.html\n"
    assert (stored / "studies" / "sample" / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_the_report_goes_where_it_is_asked_to(run, tmp_path):
    run("report", "sample", "--output", tmp_path / "page.html")

    assert "<h1>sample</h1>" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_the_report_goes_to_stdout_for_a_dash(run):
    result = run("report", "--output", "-")

    assert result.stdout.startswith("<!doctype html>")
    assert result.stderr == ""


def test_a_place_that_cannot_be_written_is_an_error_in_words(run, tmp_path):
    result = run("report", "--output", tmp_path / "missing" / "page.html")

    assert result.exit_code == 2
    assert "the report cannot be written" in result.stderr
    assert "--output" in result.stderr
