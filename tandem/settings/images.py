"""What images a prompt may have, and what reading them may cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tandem.kinds import OnOff, Real, Whole
from tandem.settings.group import Group, setting

__all__ = ["ImagesSettings"]


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class ImagesSettings(Group):
    """What images a prompt may have, and what reading them may cost."""

    __slots__ = ()
    heading: ClassVar = "Images"

    vision: bool = setting(OnOff(), True, help="Take images, where the model can see; off refuses every one.")
    max_images: int = setting(Whole(1, 10_000), 16, help="Images a prompt may hold; the oldest are left out beyond it.")
    max_image_rows: int = setting(Whole(1, 4_194_304), 65_536, help="Prompt rows that images may take together.")
    image_max_mb: int = setting(Whole(1, 1024, "MB"), 20, help="Largest image, as sent or fetched.")
    image_max_decode_pixels: int = setting(
        Whole(1, 10**9), 64_000_000, help="Most pixels an image may have by its header."
    )
    image_act_gb: float = setting(Real(0.01, 1024, "GB"), 6.0, help="Most memory that encoding one image may take.")
    image_cache_mb: int = setting(
        Whole(0, 1_048_576, "MB"),
        512,
        help="Memory for images that were read, so that one sent again is not read again; 0 keeps none.",
    )
    image_https: bool = setting(OnOff(), True, help="Fetch images from https addresses; off leaves data: URLs alone.")
    image_https_private: bool = setting(OnOff(), False, help="Let image addresses lead into private networks.")
    image_fetch_timeout: float = setting(Real(0.01, 3600), 15.0, help="Longest fetch of one image, redirects included.")
