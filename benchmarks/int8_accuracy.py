"""Top-1 of trained models in float32 and in 8 bits: python -m benchmarks.int8_accuracy.

python -m benchmarks.int8_accuracy --model CONFIG CHECKPOINT FOLDER [--model ...] [--split test]

FOLDER has the list of the clips, as ``python -m lab generate`` writes it. Each clip gives one
view, by the validation pipeline of the config. Float32 is the optimized model. 8 bits are those of
PyTorch (``optimize_for_inference``), and of ONNX Runtime in the file that ``mmvidformer export
--int8`` writes. "differ" is the number of clips whose answer is not that of float32.
"""

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor

from benchmarks.models import machine
from benchmarks.onnx_models import OnnxModel
from benchmarks.versions import versions
from mmvidformer.apis.factory import find_model
from mmvidformer.apis.pipeline import VideoPipeline, normalize
from mmvidformer.config import config_name, view_shape
from mmvidformer.data.lists import read_list
from mmvidformer.engine.loading import load_recognizer
from mmvidformer.export import export, make_graph
from mmvidformer.models.fast.inference import optimize_for_inference
from mmvidformer.models.fast.int8 import input_bits

FORMS = ("float32", "int8", "ONNX int8")
COLUMNS = ("model", "clips", *(f"{form}, top-1" for form in FORMS), "int8, differ", "ONNX, differ")


@torch.no_grad()
def answers(config: str, checkpoint: str, folder: Path, split: str) -> tuple[Tensor, Tensor]:
    """Return the classes that each of ``FORMS`` answers (3, N), and the true ones (N,)."""
    cfg, source = find_model(config, checkpoint)
    model = load_recognizer(cfg, source)
    pipeline = VideoPipeline(cfg, clips=1)
    size = view_shape(cfg)
    graph = make_graph(model, size)
    small = make_graph(optimize_for_inference(model, int8=True), size)
    fast = make_graph(optimize_for_inference(model), size)
    found, labels = [], []
    with TemporaryDirectory() as temporary:
        path = Path(temporary, "int8.onnx")
        export(graph, path, int8=True)
        written = OnnxModel(path, threads=1)
        for line in read_list(folder / f"{split}.txt", multi_class=False):
            clip = normalize(model, pipeline.read(pipeline.open(folder / line.path))["inputs"])
            logits = [fast(clip)[0], small(clip)[0], written(clip)]
            found.append(torch.cat(logits).argmax(dim=1))
            labels.append(line.labels[-1])
    return torch.stack(found, dim=1), torch.tensor(labels)


def row_of(name: str, found: Tensor, labels: Tensor) -> list[str]:
    """Return the cells of a model."""
    right = (found == labels).double().mean(dim=1)
    differ = (found[1:] != found[0]).sum(dim=1)
    shares = [f"{share:.1%}" for share in right]
    return [name, str(len(labels)), *shares, *map(str, differ.tolist())]


def main(argv: Sequence[str] | None = None) -> None:
    """Print a row for each model."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument(
        "--model",
        nargs=3,
        action="append",
        required=True,
        metavar=("CONFIG", "CHECKPOINT", "FOLDER"),
        help="a trained model, and the generated clips",
    )
    parser.add_argument("--split", default="test", help="default: %(default)s")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    print(f"{machine('cpu', 1)}; {versions()}; {input_bits()} bits of inputs")
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    for config, checkpoint, folder in args.model:
        found, labels = answers(config, checkpoint, Path(folder), args.split)
        print(f"| {' | '.join(row_of(config_name(config), found, labels))} |", flush=True)


if __name__ == "__main__":
    main()
