"""The commands of this folder: ``python -m lab COMMAND``, in a checkout."""

import sys

from mmvidformer.__main__ import Program, main

LAB = Program(
    "python -m lab",
    "lab",
    {
        "generate": "Write a motion dataset",
        "paper": "List, show and run the rows of the papers' tables",
        "verify": "Check published weights",
        "plot": {
            "curves": "Draw training curves",
            "field": "Draw the receptive field of a token",
            "horst": "Show what HORST attends to",
            "masked": "Show what masked pretraining predicts",
            "matrices": "Draw attention weights",
            "tsne": "Draw features of videos",
            "views": "Draw accuracy against views",
        },
    },
)

if __name__ == "__main__":
    sys.exit(main(program=LAB))
