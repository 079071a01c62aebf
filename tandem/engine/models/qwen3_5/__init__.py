"""Hybrid decoders of the Qwen3.5 family: Gated DeltaNet (arXiv:2412.06464) in most layers, attention in the others."""

from tandem.engine.models.qwen3_5.device import DeviceQwen35
from tandem.engine.models.qwen3_5.device_load import load_mtp_device, load_qwen3_5_device
from tandem.engine.models.qwen3_5.device_mtp import DeviceMtp
from tandem.engine.models.qwen3_5.load import load_mtp, load_qwen3_5
from tandem.engine.models.qwen3_5.model import Qwen35Model
from tandem.engine.models.qwen3_5.mtp import MtpLayer

__all__ = [
    "DeviceMtp",
    "DeviceQwen35",
    "MtpLayer",
    "Qwen35Model",
    "load_mtp",
    "load_mtp_device",
    "load_qwen3_5",
    "load_qwen3_5_device",
]
