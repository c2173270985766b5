"""Pictures of the documentation that are drawn by code: python -m benchmarks.pictures.

Each module draws one: ``core`` a composed model, ``schemes`` attention schemes as cubes, ``clip``
the way from a file to an answer, ``rooms`` the subpackages, ``horst`` its queue, ``gates`` a
feature-fixation sub-layer.
"""
