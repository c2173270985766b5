"""The choice of a model to fine-tune: questions from top to bottom, an answer beside each."""

from benchmarks.pictures.svg import Drawing

# Question, its second line; config of "yes", its second line, color by the license of its weights.
QUESTIONS = (
    ("No GPU? Camera motion?", "minutes on two cores", "camera_motion", "Apache-2.0", "green"),
    ("Predict after each frame?", "streams", "trecvit_b_k400", "CC-BY-4.0", "green"),
    ("Few labels?", "tens for each class", "vjepa2_l_sthv2", "attentive, MIT", "green"),
    ("Slow actions?", "8 frames in 8.5 s", "timesformer_b_k400", "CC-BY-NC-4.0", "orange"),
)
OTHERWISE = ("vivit_fe_k400", "Apache-2.0")
QUESTION, ANSWER = (202, 48), (184, 48)
LEFT, RIGHT, FLOOR = 14, 272, 76


def draw() -> Drawing:
    """Draw a row for each question, and the last answer below."""
    height = 20 + FLOOR * len(QUESTIONS) + ANSWER[1]
    drawing = Drawing(470, height, "Questions that lead to a config for fine-tuning")
    middle = LEFT + QUESTION[0] / 2
    for number, (question, hint, config, weights, color) in enumerate(QUESTIONS):
        y = 12 + FLOOR * number
        drawing.box((LEFT, y), QUESTION, (question, hint), "blue")
        drawing.box((RIGHT, y), ANSWER, (config, weights), color)
        drawing.arrow([(LEFT + QUESTION[0], y + 24), (RIGHT - 2, y + 24)])
        drawing.text((LEFT + QUESTION[0] + 26, y + 14), "yes", "small")
        drawing.arrow([(middle, y + QUESTION[1]), (middle, y + FLOOR - 2)])
        drawing.text((middle + 16, y + QUESTION[1] + 13), "no", "small")
    drawing.box((LEFT, 12 + FLOOR * len(QUESTIONS)), QUESTION, OTHERWISE, "green")
    return drawing
