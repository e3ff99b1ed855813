"""The one thing that pyproject.toml cannot say: the native kernels are optional.

Without a C compiler the installation goes on, and membra uses the portable NumPy kernels instead
(`python -m membra.compare.kernels` prints which).
"""

from setuptools import Extension, setup

HERE = "src/membra/compare"


def kernel(name: str, *headers: str) -> Extension:
    return Extension(
        f"membra.compare.{name}",
        sources=[f"{HERE}/{name}.c"],
        depends=[f"{HERE}/{header}" for header in headers],
        # errno would keep roots out of vector registers; sums in double precision are those of SciPy, to the last bit
        extra_compile_args=["-O3", "-fno-math-errno", "-g0", *(["-ffp-contract=off"] if name == "_exact" else [])],
        py_limited_api=True,  # one wheel for every Python from 3.11
        optional=True,
    )


setup(
    ext_modules=[
        kernel("_chamfer", "_tile.h"),
        kernel("_bounds", "_bytes.h", "_listed.h", "_rows.h"),
        kernel("_exact"),
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
