"""What users choose of videos, which can be told without importing what reads them."""

BACKENDS = ("pyav", "torchcodec", "decord")  # of ``VideoInit``, the default first
WAYS = CONTENT, NONE = "content", "none"  # how cuts are found, the default first
