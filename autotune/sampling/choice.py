"""Which sampler does a study file name?"""

from __future__ import annotations

from autotune.sampling.base import Sampler
from autotune.sampling.stock import StockSampler
from autotune.settings import SamplerSettings


def make_sampler(settings: SamplerSettings) -> Sampler:
    """Return the sampler that the settings name."""
    if settings.name != "greybox":
        return StockSampler(settings)
    from autotune.sampling.greybox.sampler import GreyboxSampler  # noqa: PLC0415  # scipy is slow to import

    return GreyboxSampler()
