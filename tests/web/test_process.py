"""The process of the page, whether or not a video hangs or crashes it, and what it may fetch."""

import multiprocessing
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from mmengine.config import Config

from mmvidformer.checkpoints.download import cached_path, fetch, is_cached
from mmvidformer.engine.offer_options import Limits
from mmvidformer.errors import UserError
from mmvidformer.video.processes import clean_context
from mmvidformer.web.answers import answer_page
from mmvidformer.web.models import Model, fetch_models, models_here
from mmvidformer.web.process import AnswerProcess
from tests.web.bad_models import BadModel, class_names, look_at


def reason(process: AnswerProcess, name: str, video: Path) -> str:
    with pytest.raises(ValueError) as caught:
        list(process.ask(name, look_at, video))
    return str(caught.value)


def test_what_hangs_or_crashes_is_ended_and_the_next_video_answered(tmp_path) -> None:
    video = tmp_path / "video.mp4"
    models = {deed: BadModel(deed) for deed in ("hang", "crash", "stop", "pid")}
    process = AnswerProcess(models, Limits())
    before = {*multiprocessing.active_children()}
    assert list(process.ask("pid", class_names)) == [["a", "b"]]
    assert reason(process, "published://a", video) == "no model named 'published://a' is offered"
    first = reason(process, "pid", video)
    assert reason(process, "stop", video) == "int8: 2 of 16 answers changed"
    assert reason(process, "pid", video) == first  # the same process
    process.limits = replace(process.limits, max_wait=0.5)
    assert reason(process, "hang", video) == "the video took longer than 0.5 s and was given up"
    assert {*multiprocessing.active_children()} <= before
    process.limits = replace(process.limits, max_wait=300)
    second = reason(process, "pid", video)
    assert second.startswith("process ") and second != first
    crashed = reason(process, "crash", video)
    assert crashed == "the video crashed the process that reads it (SIGSEGV)"
    assert {*multiprocessing.active_children()} <= before


@pytest.mark.parametrize(
    "deed, message, is_started",
    [
        ("no load", "cannot be loaded: ImportError: no module named 'kernels'", True),
        ("no memory", "crashed the process that loads it (SIGKILL)", False),
        ("no import", "crashed the process that loads it (exit status 1)", False),
    ],
)
def test_a_model_that_cannot_be_loaded_is_blamed_and_no_video(
    deed: str, message: str, is_started: bool
) -> None:
    process = AnswerProcess({"bad": BadModel(deed)}, Limits())
    with pytest.raises(UserError) as caught:
        list(process.ask("bad", class_names))
    assert str(caught.value) == f"the model bad {message}"
    assert (process.started is not None) is is_started
    process.kill()


def test_what_hangs_ends_with_a_server_that_is_killed(run) -> None:
    """Its output ends once no process has it open."""
    code = """
from mmvidformer.engine.offer_options import Limits
from mmvidformer.web.process import AnswerProcess
from tests.web.bad_models import BadModel, hang_at_once

list(AnswerProcess({"bad": BadModel("hang")}, Limits()).ask("bad", hang_at_once))
"""
    server = run(sys.executable, "-c", code)
    for line in server.stdout:
        if line == "it hangs\n":
            break
    else:
        pytest.fail("it does not hang")
    server.kill()
    assert server.communicate(timeout=60)[0] == ""


def test_a_visitor_who_leaves_ends_the_work(tiny_videos, tmp_path, monkeypatch) -> None:
    """After the part that is in work; the process then answers the next one."""
    monkeypatch.setattr("mmvidformer.web.process._PROCESSES", clean_context())
    video = tiny_videos.root / "val_0.mp4"
    config = Config.fromfile(Path(__file__).parents[1] / "cli" / "tiny_vivit.py")
    process = AnswerProcess({"tiny": Model(config=config, int8=True)}, Limits())
    answers = process.ask("tiny", answer_page, video, str(tmp_path))
    assert next(answers) == (1, "windows")
    answers.close()
    assert process.started and process.kills == 0
    assert not (tmp_path / "rollout.mp4").exists()  # which comes last
    (names,) = process.ask("tiny", class_names)
    assert names == ["0", "1", "2"]
    process.kill()


def test_a_visitor_starts_no_download(web, table) -> None:
    """Offered is what the operator names, which is fetched before, and what was fetched before."""
    here, named, other = (web.add(f"/{name}.pth", b"\x80weights") for name in ("a", "b", "c"))
    table(
        *(
            dict(
                name=Path(address).stem, address=address, format="mmaction", config="vivit_fe_k400"
            )
            for address in (here, named, other)
        ),
        dict(name="image", address="timm:image", format="timm"),
    )
    fetch(here)
    web.fetched.clear()
    assert [*models_here(None)] == ["a"] and not web.fetched
    assert [*fetch_models(["b"], Model())] == ["b"]
    assert [*models_here(None)] == ["a", "b"]
    assert web.fetched == {"/b.pth": 1}
    assert is_cached("published://b") and not is_cached("published://c")
    with pytest.raises(ValueError, match="image has no classes"):
        fetch_models(["image"], Model())
    with pytest.raises(ValueError, match="weights of published://c are not in the cache"):
        Model(config="published://c").load()
    cached_path(here).unlink()
    with pytest.raises(ValueError, match="weights of published://a are not in the cache"):
        Model(config="published://a").load()
    assert web.fetched == {"/b.pth": 1}


def test_repositories_that_were_fetched(web, tmp_path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    web.add_repository("org/name", tmp_path)
    assert not is_cached("hf://org/name")
    fetch("hf://org/name")
    assert is_cached("hf://org/name") and not is_cached("hf://org/name@other")
    assert is_cached(tmp_path / "file.pth") and is_cached("published://camera_motion")
