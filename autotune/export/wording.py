"""How figures, gains, configurations and durations are written for people, the same in terminal, report and drop-in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autotune.trial import Configuration, Figure

if TYPE_CHECKING:
    from collections.abc import Callable

    from autotune.export.findings import Noise

UNKNOWN = "-"


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
    """Write a figure with its interval and count.

    >>> render_figure(Figure(98.76, 8, 95.1, 101.9))
    '98.8 (95.1 to 102, n=8)'
    """
    if figure is None:
        return UNKNOWN
    return f"{render_number(figure.value)} ({_render_interval(figure, render_number)}n={figure.count})"


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
    """
    if gain is None:
        return UNKNOWN
    return f"{_percent(gain.value)}% ({_render_interval(gain, _percent)}n={gain.count})"


def render_share(figure: Figure | None) -> str:
    """Write a share in percent with its interval and count.

    >>> render_share(Figure(0.7, 40, 0.546, 0.819))
    '70% (55 to 82, n=40)'
    """
    if figure is None:
        return UNKNOWN
    interval = _render_interval(figure, lambda value: f"{100 * value:.0f}")
    return f"{100 * figure.value:.0f}% ({interval}n={figure.count})"


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
    differ = f"{render_count(noise.boots, 'boot')} of the baseline differ by {100 * noise.spread:.1f}%"
    if noise.smallest_gain is None:
        return f"{differ}; three are needed to say which gain can be proven"
    return f"{differ}; the smallest gain that one boot can prove is {100 * noise.smallest_gain:.1f}%"


def render_count(count: int, noun: str) -> str:
    """Write a count with its noun.

    >>> render_count(1, "trial"), render_count(2, "trial")
    ('1 trial', '2 trials')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f}"


def _render_interval(figure: Figure, write: Callable[[float], str]) -> str:
    if figure.low is None or figure.high is None:
        return ""
    return f"{write(figure.low)} to {write(figure.high)}, "
