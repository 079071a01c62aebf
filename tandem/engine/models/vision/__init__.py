"""The vision tower of the Qwen3.5 family, and where the rows of what it reads stand; `preprocess` cuts its images."""

from tandem.engine.models.vision.load import load_tower
from tandem.engine.models.vision.positions import row_positions
from tandem.engine.models.vision.tower import Tower, encode_bytes

__all__ = ["Tower", "encode_bytes", "load_tower", "row_positions"]
