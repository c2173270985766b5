"""What answers needs MMEngine's configs, and nothing else of MMAction2's stack: all is hidden."""

import json
import pkgutil
import subprocess
import sys
import textwrap
from pathlib import Path

import mmengine
import numpy as np
import pytest
import torch
from mmengine.logging import HistoryBuffer

from mmvidformer.config import get_config
from mmvidformer.config.shipped import PACKAGE
from tests.tiny_data import TinyVideos

# Of MMEngine: what configs are, and what ``mmengine.config`` imports itself.
CONFIGS = {"config", "fileio", "logging", "registry", "utils", "version"}
PARTS = {part.name for part in pkgutil.iter_modules(mmengine.__path__)}
BLOCKED = ("mmaction", "mmcv", *sorted(f"mmengine.{part}" for part in PARTS - CONFIGS))
UNUSED = (
    "decord",
    "matplotlib",
    "pandas",
    "scipy",
    "sklearn",
    "timm",
    "torchvision",
    "transformers",
)
VIDEO = PACKAGE / "weights" / "camera_motion.mp4"
BLOCK = f"""
    import sys

    class Without:
        def __init__(self, finder):
            self.finder = finder

        def find_spec(self, name, path=None, target=None):
            if any(name == project or name.startswith(project + ".") for project in HIDDEN):
                return None
            return self.finder.find_spec(name, path, target)

        def __getattr__(self, name):
            return getattr(self.finder, name)

    HIDDEN = {BLOCKED + UNUSED}
    sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
"""


def run(code: str, cwd: Path) -> str:
    """Run code in a new process in which the packages are not found."""
    text = textwrap.dedent(BLOCK) + textwrap.dedent(code)
    command = [sys.executable, "-W", "ignore", "-c", text]
    result = subprocess.run(command, capture_output=True, text=True, cwd=cwd)
    assert result.returncode == 0, result.stderr[-2000:]
    return result.stdout


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Folders that are shared, and the names that their models give."""
    from mmvidformer.apis import Recognizer
    from tests.tiny_configs import shrink

    folder = tmp_path_factory.mktemp("shared")
    names = {}
    torch.manual_seed(0)
    for name, model in {
        "motion": Recognizer("camera_motion", device="cpu"),
        "theirs": Recognizer(shrink(get_config("timesformer_b_k400")), None, "cpu"),
    }.items():
        model.save_pretrained(folder / name)
        names[str(folder / name)] = [name for _, name, _ in model(str(VIDEO)).top(3)]
    return names


@pytest.fixture(scope="module")
def printed(shared: dict, tmp_path_factory: pytest.TempPathFactory) -> dict:
    """What one process imports, answers and reads, step by step."""
    folder = tmp_path_factory.mktemp("python")
    content = {
        "state_dict": {"a": torch.ones(2)},
        "message_hub": {"log_scalars": {"loss": HistoryBuffer([1.0, 3.0], [1, 1])}},
        "scalar": np.float64(0.5),
    }
    torch.save(content, folder / "epoch_1.pth")
    own = f"_base_ = {get_config('camera_motion').filename!r}\nlog_level = 'ERROR'\n"
    (folder / "own.py").write_text(own, encoding="utf-8")
    code = f"""
        import json
        import torch, einops

        def count():
            counts.append(sum(not name.startswith("mmvidformer") for name in sys.modules))

        counts = []
        count()
        import mmvidformer

        count()
        import mmvidformer.apis

        count()
        recognizer = mmvidformer.apis.Recognizer("camera_motion")
        count()
        whole = recognizer({str(VIDEO)!r})
        windows = [*recognizer.timeline({str(VIDEO)!r}, window=1.0)]
        from mmvidformer.checkpoints.reading import read_content

        content = read_content("epoch_1.pth")
        loss = content["message_hub"]["log_scalars"]["loss"].mean()
        read = [float(loss), float(content["scalar"])]
        own = mmvidformer.config.load_config("own.py").log_level
        names = {{}}
        for folder in {[*shared]}:
            shared = mmvidformer.apis.Recognizer.from_pretrained(folder, device="cpu")
            names[folder] = [name for _, name, _ in shared({str(VIDEO)!r}).top(3)]
        # HORST's necks have a layer of timm.
        HIDDEN = tuple(name for name in HIDDEN if name not in ("timm", "torchvision"))
        from mmengine.registry import DefaultScope
        from mmvidformer.models import FeatureFixationTransformer, Horst, TimeSformer, ViViT

        sizes = dict(arch=dict(embed_dims=16, depth=1, num_heads=2), img_size=16, clip_len=2)
        clip = torch.zeros(1, 3, 2, 16, 16)
        features = (
            ViViT(stem=dict(tubelet=(2, 8, 8)), **sizes)(clip),
            mmvidformer.optimize_for_inference(TimeSformer(**sizes))(clip),
            FeatureFixationTransformer(**sizes)(clip),
            Horst(3, [4])(clip.transpose(1, 2))[0].y,
        )
        shapes = [tuple(feature.shape) for feature in features]
        assert DefaultScope.get_current_instance() is None
        result = dict(counts=counts, labels=whole.labels, windows=len(windows), read=read)
        print(json.dumps(result | dict(names=names, own=own, shapes=shapes)))
    """
    return json.loads(run(code, folder))


def test_python(printed: dict) -> None:
    assert printed["labels"] == ["pan right"] and printed["windows"] > 1


def test_a_checkpoint_with_the_state_of_its_training(printed: dict) -> None:
    """As MMEngine's runner writes it, read where none is imported."""
    assert printed["read"] == [2.0, 0.5]


def test_a_config_that_changes_a_shipped_one(printed: dict) -> None:
    assert printed["own"] == "ERROR"


@pytest.mark.parametrize(("step", "most"), [("package", 0), ("apis", 360), ("recognizer", 375)])
def test_modules_that_are_loaded(step: str, most: int, printed: dict) -> None:
    """Of other projects and the standard library, beside those of PyTorch and einops."""
    start, *counts = printed["counts"]
    loaded = dict(zip(("package", "apis", "recognizer"), counts, strict=True))
    assert loaded[step] - start <= most


def test_a_shared_folder_answers(printed: dict, shared: dict) -> None:
    """By its weights and config alone, also where its weights have the names of transformers."""
    assert printed["names"] == shared


def test_backbones(printed: dict) -> None:
    """They need neither a scope nor the models of MMAction2."""
    assert printed["shapes"] == [[1, 16], [1, 16], [1, 2, 2, 2, 16], [1, 2, 4, 16, 16]]


# A command, and what it writes; those that draw come last, and of a video that is short.
WRITTEN = {
    "demo camera_motion VIDEO --csv a.csv --json a.jsonl": "a.*",
    "label camera_motion VIDEO --out rows": "rows/*.parquet",
    "features camera_motion VIDEO --out features": "features/*",
    "export camera_motion --out a.onnx": "a.onnx",
    "count camera_motion vivit_fe_k400 --csv count.csv": "count.csv",
    "speed camera_motion --clips 1 --rounds 1 --json a.json": "a.json",
}
DRAWN = {
    "demo camera_motion SHORT --timeline b.png --out b.mp4": "b.*",
    "plot rollout camera_motion published://camera_motion SHORT --out b": "b/*.png",
}


def test_commands(tiny_videos: TinyVideos, tmp_path: Path) -> None:
    """One after another, also in processes that they start, which import this main module."""
    code = f"""
        if __name__ == "__main__":
            from mmvidformer.__main__ import main

            for command in {[*WRITTEN]}:
                if main(command.split()):
                    sys.exit(command)
            HIDDEN = tuple(name for name in HIDDEN if name != "matplotlib")
            for command in {[*DRAWN]}:
                if main(command.split()):
                    sys.exit(command)
    """
    script = tmp_path / "blocked.py"
    text = textwrap.dedent(BLOCK) + textwrap.dedent(code)
    text = text.replace("VIDEO", str(VIDEO)).replace("SHORT", str(tiny_videos.root / "val_0.mp4"))
    script.write_text(text, encoding="utf-8")
    result = subprocess.run(
        [sys.executable, "-W", "ignore", str(script)], capture_output=True, text=True, cwd=tmp_path
    )
    assert result.returncode == 0, result.stderr[-2000:]
    for command, results in (WRITTEN | DRAWN).items():
        assert [*tmp_path.glob(results)], command


@pytest.mark.slow
def test_servers(tmp_path: Path) -> None:
    """A video that is sent to the server, and one that is given to the page, get an answer."""
    pytest.importorskip("gradio")
    code = f"""
        import os, signal, threading, time
        from urllib.request import Request, urlopen

        def ask(port, question):
            for _ in range(3000):
                try:
                    urlopen(f"http://127.0.0.1:{{port}}/", timeout=60).close()
                except OSError as error:
                    if getattr(error, "code", 0) != 404:
                        time.sleep(0.1)
                        continue
                break
            try:
                print(question(port))
            finally:
                os.kill(os.getpid(), signal.SIGTERM)

        def predict(port):
            content = open({str(VIDEO)!r}, "rb").read()
            return urlopen(Request(f"http://127.0.0.1:{{port}}/predict", content)).read().decode()

        def choose(port):
            from gradio_client import Client, handle_file

            page = Client(f"http://127.0.0.1:{{port}}", verbose=False)
            job = page.submit("camera_motion", handle_file({str(VIDEO)!r}), api_name="/predict")
            job.result()
            return job.outputs()

        def run(command, question):
            from mmvidformer.__main__ import main

            with socket.create_server(("127.0.0.1", 0)) as free:
                port = free.getsockname()[1]
            threading.Thread(target=ask, args=(port, question), daemon=True).start()
            try:
                main([command, "camera_motion", "--port", str(port)])
            except SystemExit as end:
                print(command, "ended with", end.code)

        import socket

        # Gradio needs pandas, and the page draws. What answers is started anew, and reads this too.
        HIDDEN = tuple(name for name in HIDDEN if name not in ("matplotlib", "pandas"))
        if __name__ == "__main__":
            run("serve", predict)
            run("web", choose)
    """
    script = tmp_path / "servers.py"
    script.write_text(textwrap.dedent(BLOCK) + textwrap.dedent(code), encoding="utf-8")
    result = subprocess.run(
        [sys.executable, "-W", "ignore", str(script)], capture_output=True, text=True, cwd=tmp_path
    )
    assert result.returncode == 0 and "Traceback" not in result.stderr, result.stderr[-3000:]
    served, page = result.stdout.split("serve ended with 0")
    assert json.loads(served.strip().splitlines()[-1])["label"] == "pan right"
    assert "pan right" in page and "web ended with 0" in page
