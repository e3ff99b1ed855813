"""The networks, in PyTorch. Imported only to train; encoding needs none of this."""

from torch import Tensor, nn


class Autoencoder(nn.Module):
    """The paper's sparse convolutional autoencoder: f: (n, 1, 64, 64) -> (n, d) and back.

    Three stride-2 convolutions (64 -> 32 -> 16 -> 8) and a linear layer; the decoder mirrors them.
    1.1 M parameters at d = 128. The layers' names and places are those of the authors' published weights.
    """

    def __init__(self, dimension: int = 128) -> None:
        super().__init__()
        self.encoder_net = nn.Sequential(
            nn.Conv2d(1, 16, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(32, 64, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(64 * 8 * 8, dimension),
        )
        self.decoder_net = nn.Sequential(
            nn.Linear(dimension, 64 * 8 * 8),
            nn.ReLU(),
            nn.Unflatten(1, (64, 8, 8)),
            nn.ConvTranspose2d(64, 32, 3, stride=2, padding=1, output_padding=1),
            nn.ReLU(),
            nn.ConvTranspose2d(32, 16, 3, stride=2, padding=1, output_padding=1),
            nn.ReLU(),
            nn.ConvTranspose2d(16, 1, 3, stride=2, padding=1, output_padding=1),
            nn.Sigmoid(),
        )

    def forward(self, patches: Tensor) -> tuple[Tensor, Tensor]:
        """Embeddings (n, d) and reconstructions (n, 1, 64, 64) of patches (n, 1, 64, 64) in 0..1."""
        embeddings = self.encoder_net(patches)
        return embeddings, self.decoder_net(embeddings)


def reconstruction_loss(patches: Tensor, reconstructions: Tensor) -> Tensor:
    """(1/|P|) sum_p ||f_dec(f(p)) - p||^2: summed over the pixels of a patch, averaged over patches."""
    return (reconstructions - patches).square().flatten(1).sum(dim=1).mean()


def sparsity_loss(embeddings: Tensor) -> Tensor:
    """(1/|P|) sum_p ||f(p)||_1, the penalty that keeps most activations near zero."""
    return embeddings.abs().sum(dim=1).mean()
