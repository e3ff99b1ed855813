"""The one thing that pyproject.toml cannot say: the native kernel is optional.

Without a C compiler the installation goes on, and membra uses the portable NumPy kernel instead
(`python -m membra.compare.kernels` prints which).
"""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "membra.compare._chamfer",
            sources=["src/membra/compare/_chamfer.c"],
            depends=["src/membra/compare/_tile.h"],
            extra_compile_args=["-O3", "-fno-math-errno", "-g0"],  # errno would keep roots out of vector registers
            py_limited_api=True,  # one wheel for every Python from 3.11
            optional=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
