"""Train several encoders in parallel, each in one process with one thread.

With one thread the floating-point sums, and so the weights, are the same on machines with any number of cores; and two
trainings on two cores finish sooner than one after the other with two threads each, especially on a busy machine.
"""

import os
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from membra.compare.threads import processors
from membra.errors import NotEnough, Unavailable
from membra.progress import Progress
from membra.train.training_settings import TrainSettings


@dataclass(frozen=True)
class Training:
    """One encoder to be trained."""

    glyphs: Path  # the stored glyphs (see Material.seen)
    described: tuple[int, ...]  # indices of the fragments to train on
    settings: TrainSettings
    out: Path  # the .onnx file


def train_all(trainings: Sequence[Training], *, device: str, progress: Progress) -> None:
    """Train those whose file does not exist yet. `progress` counts the epochs of all of them.

    A killed run that is started again continues each training after its last finished epoch.
    """
    from membra.train.autoencoder import pick_device

    missing = [training for training in trainings if not training.out.exists()]
    if not missing:
        return
    # One training fills a GPU.
    workers = 1 if pick_device(device).type == "cuda" else min(len(missing), processors())
    context = get_context("spawn")
    epochs = context.SimpleQueue()
    with ProcessPoolExecutor(workers, context, _begin, (epochs, os.getpid())) as pool:
        running: set[Future[None]] = {pool.submit(_train, training, device) for training in missing}
        done, total = 0, sum(training.settings.epochs for training in missing)
        try:
            while running:
                finished, running = wait(running, timeout=0.5)
                while not epochs.empty():
                    done += epochs.get()
                progress(done, total)
                for future in finished:
                    future.result()
        except BrokenProcessPool:
            raise Unavailable(
                "a training process was killed, probably because memory ran out; run the command again to continue"
            ) from None
        finally:
            for future in running:
                future.cancel()


def sample(patches: Sequence[NDArray[np.uint8]], most: int, seed: int) -> NDArray[np.uint8]:
    """Draw at most `most` patches of each fragment; return all of them (n, 64, 64)."""
    chosen = []
    for index, own in enumerate(patches):
        draw = np.random.default_rng((seed, index))
        chosen.append(own[np.sort(draw.choice(len(own), most, replace=False))] if len(own) > most else own)
    if not sum(map(len, chosen)):
        raise NotEnough("no letters were found in these images, so there is nothing to train on; check the source")
    return np.concatenate(chosen)


_epochs: Any  # the queue to which a worker reports its epochs, and the id of the process that reads it: set by _begin
_parent: int


def _begin(epochs: Any, parent: int) -> None:
    import torch

    global _epochs, _parent
    _epochs, _parent = epochs, parent
    torch.set_num_threads(1)


def _train(training: Training, device: str) -> None:
    from membra.train.autoencoder import train_autoencoder

    with np.load(training.glyphs, allow_pickle=False) as file:
        parts = np.split(file["patches"], np.cumsum(file["counts"])[:-1])
    patches = sample(
        [parts[index] for index in training.described], training.settings.patches_per_image, training.settings.seed
    )
    del parts

    def after(epoch: int, epochs: int) -> None:
        if os.getppid() != _parent:
            os._exit(1)  # the run was killed: finished epochs are saved, and no process waits for the rest
        _epochs.put(1)

    train_autoencoder(patches, training.out, training.settings, device=device, progress=after)
