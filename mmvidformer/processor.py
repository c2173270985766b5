"""What the system says of its processor."""

import platform
from functools import cache
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")  # Linux


@cache
def read_facts() -> dict[str, str]:
    """Return what Linux says of the first core, such as ``vendor_id``, ``model name``, ``flags``.

    A server has hundreds of cores, all alike. Other systems have one text for vendor and name.
    """
    if not CPUINFO.is_file():
        return dict.fromkeys(("vendor_id", "model name"), platform.processor())
    lines = CPUINFO.read_text(encoding="utf-8").partition("\n\n")[0].splitlines()
    return {
        name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)
    }


def processor_name() -> str:
    """Return the name of the processor, or of its architecture if it has no name (ARM)."""
    return read_facts().get("model name") or platform.machine()


@cache
def processor_flags() -> frozenset[str]:
    """Return the instructions that the processor knows, such as ``avx512f``; of x86 only."""
    return frozenset(read_facts().get("flags", "").split())
