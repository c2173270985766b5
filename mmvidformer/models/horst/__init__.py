"""HORST: recurrent layers, and the frame backbones and baselines that go with them."""
