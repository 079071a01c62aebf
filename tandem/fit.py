"""How the conductor fits the served model, read once when the service starts (FIT-004, FIT-006)."""

from __future__ import annotations

import logging

from tandem.conductor.router.modelfit import ModelFit, fit_of
from tandem.config import SettingError, Settings
from tandem.engine.verbs import ModelCard

__all__ = ["check_fit", "model_fit"]

log = logging.getLogger(__name__)


def check_fit(settings: Settings) -> None:
    """Raises `SettingError` for a --conductor-fit that means nothing: before a model is loaded for minutes."""
    try:
        fit_of({}, settings.conductor_fit)
    except ValueError as error:
        raise SettingError(f"--conductor-fit: {error}") from None


def model_fit(settings: Settings, card: ModelCard) -> ModelFit:
    """What the model's adapter declares, as the setting has it; logged where there is a conductor."""
    check_fit(settings)
    fit = fit_of(card.conductor, settings.conductor_fit)
    if settings.conductor_config is not None:
        log.info("[conductor] model fit of %s: %s", card.name, fit)
    return fit
