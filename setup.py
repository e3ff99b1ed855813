"""What pyproject.toml cannot say: the native kernels are optional, and so are the page's scripts with their licences.

Without a C compiler the installation goes on, and membra uses the portable NumPy kernels instead
(`python -m membra.compare.kernels` prints which). Wheels for others are built with MEMBRA_RELEASE=1, by `make dist`:
what is missing then ends the build.
"""

import os
from pathlib import Path

from setuptools import Extension, setup

HERE = "src/membra/compare"
VENDOR = "src/membra/show/web/vendor"
SCRIPTS = ("htmx", "openseadragon")  # fetched by `make`; an sdist carries them

RELEASE = os.environ.get("MEMBRA_RELEASE") == "1"


def kernel(name: str, *headers: str) -> Extension:
    return Extension(
        f"membra.compare.{name}",
        sources=[f"{HERE}/{name}.c"],
        depends=[f"{HERE}/{header}" for header in headers],
        # errno would keep roots out of vector registers; sums in double precision are those of SciPy, to the last bit
        extra_compile_args=["-O3", "-fno-math-errno", "-g0", *(["-ffp-contract=off"] if name == "_exact" else [])],
        py_limited_api=True,  # one wheel for every Python from 3.11
        optional=not RELEASE,
    )


def licences() -> list[str]:
    """Ours, and those of the scripts that are there. pyproject.toml would refuse a pattern that finds nothing."""
    wanted = [f"{VENDOR}/{name}.LICENSE.txt" for name in SCRIPTS]
    scripts = [f"{VENDOR}/{name}.js" for name in SCRIPTS]
    missing = [path for path in [*wanted, *scripts] if not Path(path).is_file()]
    if RELEASE and missing:
        raise SystemExit(f"a release needs the page's scripts and their licences; missing: {', '.join(missing)}")
    return ["LICENSE", *(path for path in wanted if path not in missing)]


setup(
    license_files=licences(),
    ext_modules=[
        kernel("_chamfer", "_tile.h", "_vector.h"),
        kernel("_bounds", "_bytes.h", "_listed.h", "_look.h", "_rows.h", "_vector.h"),
        kernel("_exact"),
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
