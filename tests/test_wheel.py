"""The release: built from a clean copy, installed without compiler, npm and checkout, and used."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

import membra
from lengths import only_long
from membra import scribes
from programs import ran

ROOT = Path(__file__).parents[1]
VENDOR = ROOT / "src/membra/show/web/vendor"
SCRIPTS = ("htmx.js", "openseadragon.js")
LICENCES = ("htmx.LICENSE.txt", "openseadragon.LICENSE.txt")
MADE = (".git", ".venv", "node_modules", "build", "dist", "demo", "__pycache__", "*.egg-info", "*.so", ".*_cache")

pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.alone, only_long]
Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist and the wheel built from it, like `make dist`."""
    folder = tmp_path_factory.mktemp("built")
    _pip_must_fetch(folder)
    if not all((VENDOR / name).is_file() for name in SCRIPTS + LICENCES):
        pytest.skip("the page's scripts and licences are not here (npm is missing?): `make scripts` fetches them")
    copy = shutil.copytree(ROOT, folder / "checkout", ignore=shutil.ignore_patterns(*MADE), symlinks=True)
    command = [sys.executable, "-m", "build", "--outdir", str(folder / "dist"), str(copy)]
    done = subprocess.run(
        command,
        env={**_environment(), "MEMBRA_RELEASE": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Deprecat" not in done.stdout + done.stderr
    return folder / "dist"


def test_the_wheel_carries_what_runs_and_nothing_else(built: Path) -> None:
    [wheel] = built.glob("*.whl")
    assert wheel.name.startswith(f"membra-{membra.__version__}-cp311-abi3-")  # one wheel for every Python from 3.11
    names = set(zipfile.ZipFile(wheel).namelist())
    package = ROOT / "src/membra"
    wanted = {
        f"membra/{file.relative_to(package).as_posix()}"
        for file in package.rglob("*")
        if file.suffix in {".py", ".onnx", ".html", ".js", ".css", ".svg", ".mo", ".pyi", ".typed", ".txt", ".json"}
    }
    kernels = {f"membra/compare/{name}.abi3.so" for name in ("_chamfer", "_bounds", "_exact")}
    info = f"membra-{membra.__version__}.dist-info"
    licences = {f"{info}/licenses/LICENSE"} | {
        f"{info}/licenses/src/membra/show/web/vendor/{licence}" for licence in LICENCES
    }
    networks = {"membra/see/eye.onnx", "membra/see/orientation.onnx", "membra/describe/ready.onnx"}
    assert networks | {"membra/show/web/vendor/htmx.js"} <= wanted
    files = {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "top_level.txt"}
    assert names == wanted | kernels | licences | {f"{info}/{name}" for name in files}


def test_the_sdist_can_be_built_without_npm_or_a_checkout(built: Path) -> None:
    """The wheel above was built from it. It has all files for that, and no compiled or private ones."""
    [sdist] = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    kernels = {f"src/membra/compare/{path.name}" for path in (ROOT / "src/membra/compare").glob("*.[ch]")}
    scripts = {f"src/membra/show/web/vendor/{name}" for name in SCRIPTS + LICENCES}
    assert kernels | scripts | {"pyproject.toml", "setup.py", "constraints.txt", "LICENSE", "CHANGELOG.md"} <= names
    assert not [name for name in names if name.startswith("tests") or name.endswith(".so") or "node_modules" in name]


def test_installed_elsewhere_it_draws_finds_and_serves(built: Path, tmp_path: Path) -> None:
    run = _empty_environment(tmp_path)
    [wheel] = built.glob("*.whl")
    pinned = ("-m", "pip", "install", "--quiet", "--no-warn-script-location", "--constraint", ROOT / "constraints.txt")
    run("python", *pinned, wheel)  # like `pipx install membra`
    assert run("membra", "--version").stdout.split()[-1] == membra.__version__
    assert "base" in run("python", "-m", "membra.compare.kernels").stdout.split()  # compiled, for any processor

    scribes.collection(tmp_path / "drawn", manuscripts=2, fragments=4, letters=(40, 60), seed=3)
    run("membra", "index", tmp_path / "drawn" / "images", "--into", "mine", "--workers", "1")
    found = json.loads(run("membra", "search", "mine", tmp_path / "drawn" / "images" / "0000.jpg", "--json").stdout)
    assert len(found["hits"]) == 3
    refused = run("membra", "serve", "mine", "--port", "0", status=1)
    assert re.fullmatch(r"error: the workbench needs .*; run `pip install 'membra\[web\]'`\n", refused.stderr)

    run("python", *pinned, f"{wheel}[web]")
    shown = run("membra", "demo", "--out", "demo").stdout
    assert "The page with queries and candidates: demo/report/index.html" in shown
    first = json.loads(run("membra", "list", "demo/collection", "--json").stdout)[0]["id"]
    found = json.loads(run("membra", "search", "demo/collection", first, "--json").stdout)
    assert len(found["hits"]) == 20
    _look_at_pages(tmp_path, "demo/collection")


def _look_at_pages(home: Path, collection: str) -> None:
    """Load a page and its scripts from the installed program, then stop it."""
    command = [str(home / "venv/bin/membra"), "serve", collection, "--port", "0"]
    server = subprocess.Popen(command, cwd=home, env=_bare(home), stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout
        url = re.search(r"http://\S+", server.stdout.readline())
        assert url
        with httpx.Client(base_url=url[0], timeout=60, trust_env=False) as visitor:
            page = visitor.get("/", params={"page": 1})
            assert page.status_code == 200
            assert "/vendor/htmx.js" in page.text
            for name in SCRIPTS:
                script = visitor.get(f"/vendor/{name}")
                assert script.status_code == 200
                assert script.content == (VENDOR / name).read_bytes()
        server.send_signal(signal.SIGTERM)
        server.wait(timeout=60)
    finally:
        server.kill()
        server.communicate()


def _empty_environment(home: Path) -> Command:
    """Create an environment without packages outside the checkout; return a function that runs its programs."""
    subprocess.run([sys.executable, "-m", "venv", home / "venv"], check=True, timeout=300)
    bare = _bare(home)
    path = bare["PATH"]
    assert not [tool for tool in ("cc", "gcc", "clang", "npm", "node") if shutil.which(tool, path=path)]

    def run(program: str, *arguments: object, status: int = 0) -> subprocess.CompletedProcess[str]:
        command = [str(home / "venv/bin" / program), *map(str, arguments)]
        done = ran(command, home, bare, timeout=900)
        assert done.returncode == status, (command, done.stdout, done.stderr)
        return done

    return run


def _bare(home: Path) -> dict[str, str]:
    """Return an environment whose PATH has only the new installation: no compiler, no npm, no other Python."""
    return {**_environment(), "PATH": str(home / "venv/bin"), "HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")}


def _environment() -> dict[str, str]:
    """Return the current environment without variables that point to the checkout."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COV", "VIRTUAL_ENV"))}


def _pip_must_fetch(folder: Path) -> None:
    """Skip with pip's error message if packages cannot be fetched: no network."""
    options = ["--quiet", "--no-deps", "--no-cache-dir", "--retries", "0", "--timeout", "15", "--dest", str(folder)]
    command = [sys.executable, "-m", "pip", "download", *options, "setuptools>=77"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        pytest.skip(f"pip cannot fetch packages here, so nothing can be installed: {done.stderr.strip()[-300:]}")
