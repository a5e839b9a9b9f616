"""How figures, gains, configurations and durations are written for people, the same in terminal, report and drop-in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from autotune.trial import Configuration, Figure

if TYPE_CHECKING:
    from autotune.export.findings import Findings, Noise, TimeSpent

UNKNOWN = "-"

_SMALLEST_GAIN_TO_NAME: Final = 1.0
"""When only more than twice the speed were beyond the noise, the figure says nothing but that nothing can be proven."""


def clean(text: str) -> str:
    r"""Make untrusted text safe to look at: control characters (escape sequences too) become visible.

    >>> clean("a\x1b[31mb")
    'a\\x1b[31mb'
    """
    return "".join(
        char if char in "\n\t" or char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def render_number(value: float) -> str:
    """Write a positive number with three significant digits at least, without an exponent.

    >>> [render_number(value) for value in (0.0123, 4.567, 98.76, 1234.5)]
    ['0.0123', '4.57', '98.8', '1234']
    """
    if abs(value) >= 100:
        return f"{value:.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if abs(value) >= 1 else f"{value:.3g}"


def render_figure(figure: Figure | None) -> str:
    """Write a positive figure with its interval and count.

    >>> render_figure(Figure(98.76, 8, 95.1, 101.9))
    '98.8 (95.1 to 102, n=8)'
    >>> render_figure(Figure(83.2, 4, -26.5, 193.0))
    '83.2 (n=4, interval unknown)'
    """
    if figure is None:
        return UNKNOWN
    bounds = known_bounds(figure)
    if bounds is None:
        return f"{render_number(figure.value)} (n={figure.count}, interval unknown)"
    return f"{render_number(figure.value)} ({' to '.join(map(render_number, bounds))}, n={figure.count})"


def known_bounds(figure: Figure | None) -> tuple[float, float] | None:
    """Return the interval of a positive quantity; ``None`` where it is unknown, or so wide that it is impossible.

    >>> known_bounds(Figure(83.2, 4, 50.5, 193.0)), known_bounds(Figure(83.2, 4, -26.5, 193.0))
    ((50.5, 193.0), None)
    """
    if figure is None or figure.low is None or figure.high is None or figure.low <= 0:
        return None
    return figure.low, figure.high


def render_gain(gain: Figure | None) -> str:
    """Write a ratio to the baseline as a change in percent.

    >>> render_gain(Figure(1.123, 8))
    '+12.3%'
    """
    return UNKNOWN if gain is None else f"{_percent(gain.value)}%"


def render_gain_with_interval(gain: Figure | None) -> str:
    """Write a ratio to the baseline as a change in percent, with its interval and count.

    >>> render_gain_with_interval(Figure(1.123, 8, 1.1, 1.147))
    '+12.3% (+10.0 to +14.7, n=8)'
    >>> render_gain_with_interval(Figure(1.123, 0, 0.9, 1.4)), render_gain_with_interval(Figure(1.123, 3))
    ('+12.3% (-10.0 to +40.0, not by prompt)', '+12.3% (n=3, interval unknown)')
    """
    if gain is None:
        return UNKNOWN
    count = f"n={gain.count}" if gain.count else "not by prompt"
    bounds = known_bounds(gain)
    if bounds is None:
        return f"{_percent(gain.value)}% ({count}, interval unknown)"
    return f"{_percent(gain.value)}% ({' to '.join(map(_percent, bounds))}, {count})"


def render_share(figure: Figure | None) -> str:
    """Write a share in percent with its interval and count.

    >>> render_share(Figure(0.7, 40, 0.546, 0.819))
    '70% (55 to 82, n=40)'
    """
    if figure is None:
        return UNKNOWN
    share = f"{100 * figure.value:.0f}%"
    if figure.low is None or figure.high is None:
        return f"{share} (n={figure.count}, interval unknown)"
    return f"{share} ({100 * figure.low:.0f} to {100 * figure.high:.0f}, n={figure.count})"


def render_configuration(configuration: Configuration) -> str:
    """Write a configuration, *none* where a parameter is switched off.

    >>> render_configuration({"budget": 16, "window": None})
    'budget=16 window=none'
    """
    return " ".join(f"{name}={'none' if value is None else value}" for name, value in configuration.items())


def render_duration(seconds: float | None) -> str:
    """Write a duration in the two largest of its units.

    >>> [render_duration(seconds) for seconds in (None, 0.4, 75, 3600, 36061)]
    ['-', '0.4 s', '1 min 15 s', '1 h 0 min', '10 h 1 min']
    """
    if seconds is None:
        return UNKNOWN
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def render_noise(noise: Noise | None) -> str:
    """Say which gains are beyond the noise between boots."""
    if noise is None:
        return "unknown until the baseline has been booted twice; intervals are within one boot"
    inside = "" if noise.inside is None else f" (noise inside a boot: {render_percent(noise.inside)})"
    differ = f"{render_count(noise.boots, 'boot')} of the baseline differ by {render_percent(noise.spread)}{inside}"
    if noise.smallest_gain is None:
        return f"{differ}; three are needed to say which gain can be proven"
    if not can_prove(noise.smallest_gain):
        return f"{differ}; no gain can be proven"
    return f"{differ}; the smallest gain that one boot can prove is {render_percent(noise.smallest_gain)}"


def render_drifts(findings: Findings) -> list[str]:
    """Say which boots drifted and how it shows, one sentence for each."""
    return [f"the boot of trial {number} drifted: {'; '.join(said)}" for number, said in findings.drifts.items()]


def can_prove(smallest_gain: float) -> bool:
    """True when the noise between boots leaves room for a gain that one boot can prove."""
    return smallest_gain < _SMALLEST_GAIN_TO_NAME


def render_boots(time: TimeSpent) -> str:
    """Say how many servers were booted, and how many that ran already were used."""
    boots = render_count(time.boots, "boot")
    return f"{boots}, {render_count(time.adopted, 'running server')} used" if time.adopted else boots


def render_percent(share: float) -> str:
    """Write a share of one in percent.

    >>> render_percent(0.0512)
    '5.1%'
    """
    return f"{100 * share:.1f}%"


def render_count(count: int, noun: str) -> str:
    """Write a count with its noun.

    >>> render_count(1, "trial"), render_count(2, "trial")
    ('1 trial', '2 trials')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f}"
