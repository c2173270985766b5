"""Random compositions: encoders in a row, with all parts and their options."""

from hypothesis import given
from hypothesis import strategies as st

from mmvidformer.layers import KERNELS
from tests.models.tiny import STEM, same_examples

KINDS = [
    *("joint", "space", "time", "width", "height", "local", "strided"),
    *("causal_time", "causal_joint"),
    dict(type="window", size=(2, 2, 2)),
    dict(type="window", size=(2, 2, 2), shift=(1, 1, 1)),
    dict(type="window", size=(2, 9, 9)),
    dict(type="window", size=(2, 1, 1)),
]
ALL = [*KINDS, ("time", "space"), ("width", "height")]
IN_FRAMES = [
    "joint",
    "space",
    "width",
    "height",
    "local",
    "strided",
    ("width", "height"),
    *KINDS[9:11],
]
OVER_FRAMES = ["joint", "time", "causal_time", "strided", *KINDS[11:]]
STEMS = [
    STEM,
    dict(tubelet=(2, 4, 8)),
    dict(tubelet=(1, 8, 8), stride=(1, 7, 7), padding=(0, 4, 4), norm=True),
]
POSITIONS = [
    *("none", "space", "time", "space_time", "joint", dict(type="joint", fixed=True)),
    dict(type="joint", fixed="flat"),
]


def sublayers(patterns: list) -> st.SearchStrategy:
    return st.fixed_dictionaries(
        dict(
            pattern=st.sampled_from(patterns),
            kernel=st.sampled_from(["softmax", "linear", *sorted(set(KERNELS) - {"recurrence"})]),
            fixation=st.sampled_from([None, None, "qkv_shared", "qk"]),
            shifts=st.sampled_from([(), (), ("temporal",), ("spatial",), ("spatial", "temporal")]),
            fc=st.booleans(),
            zero_init=st.booleans(),
            shift_last=st.booleans(),
        ),
        optional=dict(cls=st.sampled_from(["mean", "global", "skip"])),
    ).map(
        lambda row: {
            **row,
            "shift_last": row["shift_last"] and bool(row["shifts"] and row["fixation"]),
        }
    )


@st.composite
def compositions(draw) -> dict:
    """Encoders in a row. Most patterns suit the axes that their tokens have."""
    encoders, pooled = [], False
    for _ in range(draw(st.integers(1, 2))):
        frames = draw(st.sampled_from(["together", "together", "pool", "average"]))
        cls = draw(st.sampled_from([None, None, "mean", "global"]))
        suited = IN_FRAMES if frames != "together" else OVER_FRAMES if pooled else ALL
        patterns = draw(st.sampled_from([suited, suited, suited, ALL]))
        row = st.fixed_dictionaries(
            dict(
                depth=st.integers(1, 2),
                embed_dims=st.sampled_from([16, 32]),
                block=st.lists(sublayers(patterns), min_size=1, max_size=3),
                parallel=st.booleans(),
                positions=st.sampled_from(POSITIONS),
                rope=st.sampled_from([None] * 6 + ["axial", "vjepa2", "dinov3", "eva02"]),
                registers=st.sampled_from([0, 2] if cls else [0]),
                mlp=st.one_of(
                    st.fixed_dictionaries(
                        dict(
                            type=st.just("mlp"),
                            act=st.sampled_from(["gelu", "gelu_tanh", "quick_gelu"]),
                            depthwise=st.sampled_from([False, False, not cls]),
                        )
                    ),
                    st.fixed_dictionaries(dict(type=st.just("swiglu"), norm=st.booleans())),
                ),
                norm_pre=st.booleans(),
                qkv_bias=st.sampled_from([True, False, "qv"]),
                qk_norm=st.sampled_from([None, "rms"]),
                layer_scale=st.sampled_from([None, 0.5]),
                norm=st.sampled_from(["layer", "rms", dict(type="rms", eps=1e-3)]),
                drop_path_rule=st.sampled_from(["clip", "group", "unscaled"]),
            )
        )
        drawn = draw(row)
        drawn["parallel"] &= len(drawn["block"]) > 1
        if cls is None:  # so that no sub-layer may name a role
            drawn["block"] = [{**one, "cls": "skip"} for one in drawn["block"]]
        encoders.append(dict(frames=frames, cls=cls, **drawn))
        pooled = pooled or frames == "pool"
    return dict(
        stem=draw(st.sampled_from(STEMS)),
        encoders=encoders,
        init=draw(st.sampled_from(["timm", "flax"])),
        fc_norm=draw(st.sampled_from([None, "layer"])),
    )


def draw(count: int) -> list[dict]:
    """Random compositions, the same ones in each run."""
    drawn = []

    @same_examples(count)
    @given(options=compositions())
    def run(options: dict) -> None:
        drawn.append(options)

    run()
    return drawn
