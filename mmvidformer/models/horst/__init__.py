"""HORST: recurrent layers, and the frame backbones and baselines that go with them.

Heads and recognizer depend on MMAction2's models. The registry imports them at the first look-up.
"""
