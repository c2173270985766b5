"""Parts of ``python -m benchmarks.gpu_check``, and peaks of GPUs."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1] / "tests"
DECODING = TESTS / "data" / "test_encoded.py"
WAITING = TESTS / "models" / "test_synchronisations.py"
GPU_TESTS = shlex.join(
    str(path)
    for path in sorted(TESTS.rglob("test_*.py"))
    if path not in (DECODING, WAITING)
    and re.search(r"^@pytest\.mark\.gpu", path.read_text(), re.MULTILINE)
)
STEPS = "benchmarks.steps --device cuda"
TINY_STEPS = "benchmarks.steps timesformer_motion horst_early_motion --device cpu"
SPEED = "--optimize --device cuda --dtype bf16 --batch 4 --repeats 10 --warmup 3"

# Peak of dense bf16 matmuls in TFLOP/s by words in the device's name, from NVIDIA's data sheets,
# whose numbers for sparse matrices are twice as large. The first match counts.
PEAKS = {
    r"H200 NVL": 835.5,
    r"H200": 989.4,
    r"H100 NVL": 835.5,
    r"H100 PCIe": 756.5,
    r"H100": 989.4,
    r"A100": 312.0,
    r"L40S": 362.0,
    r"L4": 121.0,
}


def peak_of(device: str) -> float | None:
    """Return the peak in TFLOP/s of a device by its name; None if it is unknown."""
    for name, peak in PEAKS.items():
        if re.search(rf"\b{name}\b", device):
            return peak
    return None


@dataclass(frozen=True)
class Part:
    """A command that shows something.

    Args:
        name: Name of the part and of its files.
        shows: What it shows.
        minutes: Longest time that it may take.
        command: Arguments of ``python -m``, without the output.
        tiny: The same for tiny models on a CPU; None if the part needs a GPU.
        timed: Whether it must run alone.
    """

    name: str
    shows: str
    minutes: float
    command: str
    tiny: str | None = None
    timed: bool = False


PARTS = (
    Part("tests", "results of the tests marked gpu", 2.0, f"pytest -m gpu {GPU_TESTS}"),
    Part(
        "decoding",
        "clips that TorchCodec decodes on the GPU against the CPU's",
        0.5,
        f"pytest -m gpu {shlex.quote(str(DECODING))}",
        f"pytest {shlex.quote(str(DECODING))}",
    ),
    Part(
        "synchronisations",
        "that no forward pass and no training step waits for the GPU, of each family",
        0.5,
        f"pytest -m gpu {shlex.quote(str(WAITING))}",
        f"pytest -m 'not gpu' {shlex.quote(str(WAITING))}",
    ),
    Part(
        "places",
        "that tables of positions are computed once for a size",
        0.5,
        "benchmarks.once places",
        "benchmarks.once places --device cpu --size 4",
    ),
    Part(
        "eager",
        "training steps of each family in fp32, bf16 and fp16 against the CPU's",
        0.8,
        STEPS,
        TINY_STEPS,
    ),
    Part(
        "nccl",
        "the same steps with DDP over NCCL in one process",
        0.8,
        f"{STEPS} --modes ddp",
        f"{TINY_STEPS} --modes ddp --dtypes fp32",
    ),
    Part(
        "fsdp",
        "the same steps with FSDP over NCCL in one process",
        0.8,
        f"{STEPS} --modes fsdp",
        f"{TINY_STEPS} --modes fsdp --dtypes fp32",
    ),
    Part(
        "compiled",
        "compiled training steps of each family in bf16, fp32 and fp16 against the CPU's, of whole "
        "models and of their blocks",
        3.0,
        f"{STEPS} --modes compiled blocks --dtypes bf16 fp32 fp16",
        "benchmarks.steps timesformer_motion --modes compiled blocks --dtypes fp32 "
        "--backend aot_eager --device cpu",
    ),
    Part(
        "speed",
        "time, memory and share of the peak, next to MMAction2, HuggingFace and timm",
        2.5,
        "benchmarks.models timesformer_b_k400 timesformer/table1/joint_k400 vivit_st_k400 "
        f"vivit_fe_k400 vivit_fsa_k400 vivit_l_fe_k400 {SPEED}",
        "benchmarks.models timesformer_motion --device cpu --threads 1 --repeats 1 --warmup 0 "
        "--no-memory",
        timed=True,
    ),
    Part(
        "horst",
        "time of HORST next to its straightforward form, with equal outputs",
        0.5,
        "benchmarks.horst --device cuda",
        "benchmarks.horst --batch 1 --steps 4 --channels 8 --size 4 6 --order 2 --repeat 1",
        timed=True,
    ),
    Part(
        "windows",
        "what the mask of shifted windows adds to the memory for each clip",
        0.5,
        "benchmarks.once windows --size 56",
        "benchmarks.once windows --device cpu --size 14",
        timed=True,
    ),
    Part(
        "recurrence",
        "time of the recurrence over time, and of an associative scan in its place",
        0.5,
        "benchmarks.once recurrence",
        "benchmarks.once recurrence --device cpu --size 2",
        timed=True,
    ),
    Part(
        "flex",
        "time and memory of a training step with and without FlexAttention",
        1.5,
        "benchmarks.flex --device cuda",
        "benchmarks.flex --device cpu --width 16 --frames 2 --size 32 --batch 1 --repeats 1",
        timed=True,
    ),
    Part(
        "host_time",
        "time until the kernels of a block are launched, next to timm's",
        0.5,
        "benchmarks.host_time --device cuda",
        "benchmarks.host_time --rounds 1",
        timed=True,
    ),
    Part(
        "fixation",
        "time and memory of feature fixation next to plain linear and softmax attention",
        0.7,
        "benchmarks.attention --kernels fixation linear softmax --frames 16 32 --sizes 224 "
        "--device cuda --dtype bfloat16",
        "benchmarks.attention --kernels fixation linear --attention joint --frames 2 --sizes 32 "
        "--arch 32,1,2 --repeats 1 --warmup 0 --device cpu",
        timed=True,
    ),
    Part(
        "speed_blocks",
        "time, memory and share of the peak of models whose blocks are compiled",
        1.5,
        f"benchmarks.models timesformer_b_k400 vivit_fe_k400 --compile blocks {SPEED}",
        timed=True,
    ),
    Part(
        "speed_compiled",
        "time, memory and share of the peak of compiled models",
        3.0,
        f"benchmarks.models timesformer_b_k400 vivit_fe_k400 --compile {SPEED}",
        timed=True,
    ),
)
