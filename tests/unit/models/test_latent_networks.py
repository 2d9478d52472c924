"""The server's networks, fed with x_i W of one shared W, are the whole GCN and GAT."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from securefg.data.graph import undirected
from securefg.foundation.streams import torch_stream
from securefg.models.gcn import normalized_adjacency, run_gcn
from securefg.models.latent_networks import LatentGat, LatentGcn, Smoothness
from securefg.models.sparse import DenseMatrix

CPU = torch.device("cpu")
NUM_NODES = 9
EDGES = undirected(torch.tensor([[0, 1, 2, 3, 4, 0, 5], [1, 2, 3, 4, 0, 3, 6]]), NUM_NODES)


def latents(width: int) -> Tensor:
    return torch.randn(NUM_NODES, width, generator=torch.Generator().manual_seed(1))


def test_the_latent_gcn_is_the_gcn_without_its_first_product() -> None:
    network = LatentGcn(EDGES, (NUM_NODES, 6, 3), 0.5, 0, CPU)
    whole = (torch.eye(6), network.parameters[0])
    adjacency = normalized_adjacency(EDGES, NUM_NODES)
    _, wanted = run_gcn(whole, adjacency, DenseMatrix(latents(6)))
    assert torch.allclose(network.logits(latents(6)), wanted, atol=1e-6)


def test_the_latent_gat_is_two_layers_of_pyg_without_the_first_product() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own imports are deprecated in PyTorch
        from torch_geometric.nn import GATConv
    network = LatentGat(EDGES, (NUM_NODES, 8, 3), 4, 0.6, 0, CPU)
    target0, source0, weights, target1, source1 = network.parameters
    first = GATConv(8, 2, heads=4, bias=False)
    second = GATConv(8, 3, heads=1, bias=False)
    with torch.no_grad():
        first.lin.weight.copy_(torch.eye(8))
        second.lin.weight.copy_(weights.T)
        for layer, source, target in ((first, source0, target0), (second, source1, target1)):
            layer.att_src[0], layer.att_dst[0] = source, target
        wanted = second(torch.nn.functional.elu(first(latents(8), EDGES)), EDGES)
        assert torch.allclose(network.logits(latents(8)), wanted, atol=1e-6)


def test_dropout_acts_in_training_alone() -> None:
    for network in (
        LatentGcn(EDGES, (NUM_NODES, 8, 3), 0.5, 0, CPU),
        LatentGat(EDGES, (NUM_NODES, 8, 3), 4, 0.6, 0, CPU),
    ):
        still = network.logits(latents(8))
        assert torch.equal(still, network.logits(latents(8)))
        noisy = [network.logits(latents(8), torch_stream(0, "dropout", n)) for n in (1, 1, 2)]
        assert torch.equal(noisy[0], noisy[1])
        assert not torch.equal(noisy[0], noisy[2])
        assert not torch.equal(noisy[0], still)


def test_smoothness_and_its_gradient_are_the_mean_over_directed_edges() -> None:
    for edges in (EDGES, EDGES[:, ::3]):  # undirected, and directed with edges one way
        z = latents(6).requires_grad_()
        direct = (z[edges[0]] - z[edges[1]]).square().sum(1).mean()
        ours = Smoothness(edges, NUM_NODES, CPU)(z)
        assert torch.allclose(ours, direct, rtol=1e-5)
        gradients = [torch.autograd.grad(loss, z)[0] for loss in (direct, ours)]
        assert torch.allclose(*gradients, atol=1e-6)


def test_smoothness_with_edges_to_oneself_counts_them_as_zero() -> None:
    loops, z = torch.tensor([[0, 2], [0, 2]]), latents(6)
    plain = Smoothness(EDGES, NUM_NODES, CPU)(z)
    looped = Smoothness(torch.cat([EDGES, loops], 1), NUM_NODES, CPU)(z)
    count = EDGES.shape[1]
    assert torch.allclose(looped * (count + 2), plain * count, rtol=1e-5)


def test_smoothness_of_heads_side_by_side_is_the_sum_of_the_heads() -> None:
    smoothness, z = Smoothness(EDGES, NUM_NODES, CPU), latents(6)
    apart = sum(smoothness(head) for head in z.split(2, dim=1))
    assert torch.allclose(smoothness(z), torch.as_tensor(apart), rtol=1e-5)
