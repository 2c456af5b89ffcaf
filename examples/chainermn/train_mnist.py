"""Train a perceptron on MNIST data-parallel with ChainerMN: ``mpirun -n RANKS python train_mnist.py``.

It follows ChainerMN's own example, with the ``naive`` communicator and `MultiprocessIterator`, whose processes are as
many as CPUs unless ``--workers`` says otherwise. The training log is ``OUT/log``; it holds ``elapsed_time``.
"""

import argparse
import multiprocessing

import chainer
import chainermn
import numpy
from chainer import functions, links, training
from chainer.training import extensions
from mnist import ensure_mnist


class MLP(chainer.Chain):
    """Three layers."""

    def __init__(self, units: int, classes: int) -> None:
        super().__init__()
        with self.init_scope():
            self.l1 = links.Linear(784, units)
            self.l2 = links.Linear(units, units)
            self.l3 = links.Linear(units, classes)

    def __call__(self, x: chainer.Variable) -> chainer.Variable:
        """Return the logits of a batch, shape (batch, classes)."""
        hidden = functions.relu(self.l1(x))
        hidden = functions.relu(self.l2(hidden))
        return self.l3(hidden)


class Augmented(chainer.dataset.DatasetMixin):
    """Images shifted by up to two pixels, and a little noise: what the workers do."""

    def __init__(self, base: chainer.datasets.TupleDataset) -> None:
        self.base = base

    def __len__(self) -> int:
        return len(self.base)

    def get_example(self, i: int) -> tuple:
        """Return image i, shape (784,) float32, and its label."""
        image, label = self.base[i]
        random = numpy.random.default_rng(i)
        image = image.reshape(28, 28)
        for _ in range(4):
            image = numpy.roll(image, random.integers(-2, 3, 2), (0, 1))
            image = image + random.normal(0, 0.01, image.shape)
        return image.astype(numpy.float32).ravel(), label


def main() -> None:
    """Train on all ranks, and evaluate after each epoch."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, help="processes of an iterator; by default as many as CPUs")
    parser.add_argument("--batchsize", type=int, default=100)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--units", type=int, default=500)
    parser.add_argument("--out", default="result")
    given = parser.parse_args()

    communicator = chainermn.create_communicator("naive")
    if communicator.mpi_comm.rank == 0:
        ensure_mnist()
        print(f"{communicator.size} ranks, batch {given.batchsize}, {given.workers or 'default'} workers")
    communicator.mpi_comm.barrier()
    train, test = chainer.datasets.get_mnist() if communicator.rank == 0 else (None, None)
    train = Augmented(chainermn.scatter_dataset(train, communicator, shuffle=True, seed=0))
    test = chainermn.scatter_dataset(test, communicator, shuffle=True, seed=0)

    multiprocessing.set_start_method("forkserver")  # forking after MPI_Init is not safe
    options = {"n_processes": given.workers}
    train_batches = chainer.iterators.MultiprocessIterator(train, given.batchsize, **options)
    test_batches = chainer.iterators.MultiprocessIterator(
        test, given.batchsize, repeat=False, shuffle=False, **options
    )

    model = links.Classifier(MLP(given.units, 10))
    optimizer = chainermn.create_multi_node_optimizer(chainer.optimizers.Adam(), communicator)
    optimizer.setup(model)
    updater = training.StandardUpdater(train_batches, optimizer)
    trainer = training.Trainer(updater, (given.epochs, "epoch"), out=given.out)
    trainer.extend(
        chainermn.create_multi_node_evaluator(extensions.Evaluator(test_batches, model), communicator)
    )
    if communicator.rank == 0:
        trainer.extend(extensions.LogReport())
        trainer.extend(
            extensions.PrintReport(["epoch", "main/loss", "validation/main/accuracy", "elapsed_time"])
        )
    trainer.run()
    train_batches.finalize()
    test_batches.finalize()


if __name__ == "__main__":
    main()
