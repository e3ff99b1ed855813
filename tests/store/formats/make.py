"""Makes `tests/store/formats/VERSION`: a stored collection of the present format, which every later membra must open.

    python tests/store/formats/make.py

Run it when the format changes, and keep the folders of released versions as they are.
"""

import json
import shutil
import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import onnx
from onnx import TensorProto, helper

sys.path.insert(0, str(Path(__file__).parents[2]))

from factories import batches
from membra.describe.encoder import Encoder
from membra.find.search import search
from membra.store.batch import write_batch
from membra.store.collection import Collection
from membra.store.manifest import FORMAT

METHODS = ("bob-chamfer", "bob-local", "bob-transport", "pool-mean-l2", "pool-max-l2")


def main() -> None:
    into = Path(__file__).parent / str(FORMAT)
    shutil.rmtree(into, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        collection = Collection.create(Path(folder) / "C", encoder=Encoder(smallest()))
        with collection.writing() as writer:
            for batch in batches(Path("/photographs"), range(7), 4):
                writer.store(write_batch(collection.path, batch))
        collection.remove(["0002.jpg"])
        rankings = {method: search(collection, "0000.jpg", method=method).hits for method in METHODS}
        expected = {name: [[hit.id, round(hit.distance, 6)] for hit in hits] for name, hits in rankings.items()}
        with closing(sqlite3.connect(collection.path / "manifest.sqlite")) as database:
            database.executescript(  # smaller pages, so that the file is small
                "PRAGMA journal_mode = DELETE; PRAGMA page_size = 512; VACUUM; PRAGMA journal_mode = WAL;"
            )
        (collection.path / "writer.lock").unlink()
        (collection.path / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
        shutil.copytree(collection.path, into)


def smallest() -> bytes:
    """An encoder of a few hundred bytes: the mean of each patch."""
    patches = helper.make_tensor_value_info("patches", TensorProto.FLOAT, ["n", 1, 64, 64])
    embeddings = helper.make_tensor_value_info("embeddings", TensorProto.FLOAT, ["n", 1])
    nodes = [
        helper.make_node("GlobalAveragePool", ["patches"], ["mean"]),
        helper.make_node("Flatten", ["mean"], ["embeddings"]),
    ]
    graph = helper.make_graph(nodes, "mean", [patches], [embeddings])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


if __name__ == "__main__":
    main()
