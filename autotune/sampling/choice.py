"""Which sampler does a study file name?"""

from __future__ import annotations

from autotune.sampling.base import Sampler
from autotune.sampling.greybox.sampler import GreyboxSampler
from autotune.sampling.stock import StockSampler
from autotune.settings import SamplerSettings


def make_sampler(settings: SamplerSettings) -> Sampler:
    """Return the sampler that the settings name."""
    return GreyboxSampler() if settings.name == "greybox" else StockSampler(settings)
