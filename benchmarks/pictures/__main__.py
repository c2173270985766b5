"""Write the pictures; ``tests/docs/test_design.py`` checks whether they are up to date."""

from pathlib import Path

from benchmarks.pictures import choice, clip, core, gates, horst, prediction, rooms, schemes

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "images"
PICTURES = {
    "core": core.draw,
    "timesformer_schemes": schemes.draw_timesformer,
    "vivit_schemes": schemes.draw_vivit,
    "clip": clip.draw,
    "prediction": prediction.draw,
    "rooms": rooms.draw,
    "horst": horst.draw,
    "gates": gates.draw,
    "choice": choice.draw,
}


def main() -> None:
    """Write the files."""
    for name, draw in PICTURES.items():
        (FOLDER / f"{name}.svg").write_text(draw().render(), encoding="utf-8")


if __name__ == "__main__":
    main()
