"""torch_geometric: graphs of twenty nodes, many layers and models."""

import torch

from .entry import built, made

NODES, EDGES, WIDTH = 20, 60, 8


def _edges(batch):
    return torch.cat([NODES * graph + torch.randint(0, NODES, (2, EDGES)) for graph in range(batch)], 1)


def graphs(batch):
    """The nodes' features and the edges of graphs that do not touch."""
    return torch.randn(batch * NODES, WIDTH), _edges(batch)


def _model(name, **options):
    return made(f"torch_geometric.nn.models:{name}", graphs, **options)


def _layer(name, inputs=graphs, **options):
    return made(f"torch_geometric.nn:{name}", inputs, **options)


def _features_of_edges(width):
    return lambda batch: (*graphs(batch), torch.randn(batch * EDGES, width))


@built("torch_geometric", "GINConv")
def _gin(batch):
    from torch import nn
    from torch_geometric.nn import GINConv

    return GINConv(nn.Sequential(nn.Linear(WIDTH, 16), nn.ReLU(), nn.Linear(16, 8))), graphs(batch)


@built("torch_geometric", "NNConv")
def _nn_conv(batch):
    from torch import nn
    from torch_geometric.nn import NNConv

    return NNConv(WIDTH, 4, nn.Linear(3, WIDTH * 4)), _features_of_edges(3)(batch)


@built("torch_geometric", "EdgeConv")
def _edge_conv(batch):
    from torch import nn
    from torch_geometric.nn import EdgeConv

    return EdgeConv(nn.Sequential(nn.Linear(2 * WIDTH, 16), nn.ReLU(), nn.Linear(16, 8))), graphs(batch)


@built("torch_geometric", "GPSConv")
def _gps(batch):
    from torch_geometric.nn import GCNConv, GPSConv

    return GPSConv(WIDTH, GCNConv(WIDTH, WIDTH), heads=2), graphs(batch)


BASIC = {"in_channels": WIDTH, "hidden_channels": 16, "num_layers": 2, "out_channels": 4}
ENTRIES = [
    _model("GCN", **BASIC),
    _model("GraphSAGE", **BASIC),
    _model("GIN", **BASIC),
    _model("GAT", **BASIC, heads=2),
    _model("GAT", called="GATv2", **BASIC, heads=2, v2=True),
    _model("EdgeCNN", **BASIC),
    _model("PNA", **BASIC, aggregators=["mean", "max", "std"], scalers=["identity", "amplification"],
           deg=torch.tensor([0, 5, 10, 5])),
    _model("GCN", called="GCN_jumping_knowledge", **BASIC, jk="cat"),
    _model("GraphUNet", in_channels=WIDTH, hidden_channels=16, out_channels=4, depth=2),
    _layer("ChebConv", in_channels=WIDTH, out_channels=4, K=3),
    _layer("SAGEConv", called="SAGEConv_max", in_channels=WIDTH, out_channels=4, aggr="max"),
    _layer("GraphConv", in_channels=WIDTH, out_channels=4),
    _layer("GatedGraphConv", out_channels=16, num_layers=2),
    _layer("ResGatedGraphConv", in_channels=WIDTH, out_channels=4),
    _layer("TransformerConv", in_channels=WIDTH, out_channels=4, heads=2),
    _layer("TAGConv", in_channels=WIDTH, out_channels=4),
    _layer("ARMAConv", in_channels=WIDTH, out_channels=4),
    _layer("SGConv", in_channels=WIDTH, out_channels=4, K=2),
    _layer("MFConv", in_channels=WIDTH, out_channels=4),
    _layer("GENConv", in_channels=WIDTH, out_channels=4),
    _layer("ClusterGCNConv", in_channels=WIDTH, out_channels=4),
    _layer("SuperGATConv", in_channels=WIDTH, out_channels=4),
    _layer("EGConv", in_channels=WIDTH, out_channels=8, num_heads=2, num_bases=2),
    _layer("FeaStConv", in_channels=WIDTH, out_channels=4, heads=2),
    _layer("LEConv", in_channels=WIDTH, out_channels=4),
    _layer("FiLMConv", in_channels=WIDTH, out_channels=4),
    _layer("MixHopConv", in_channels=WIDTH, out_channels=4),
    _layer("AntiSymmetricConv", in_channels=WIDTH),
    _layer("HypergraphConv", in_channels=WIDTH, out_channels=4),
    _layer("CGConv", _features_of_edges(3), channels=WIDTH, dim=3),
    _layer("GATConv", _features_of_edges(3), called="GATConv_edges", in_channels=WIDTH, out_channels=4, edge_dim=3),
    _layer("GMMConv", _features_of_edges(3), in_channels=WIDTH, out_channels=4, dim=3, kernel_size=2),
    _layer("RGCNConv", lambda batch: (*graphs(batch), torch.randint(0, 3, (batch * EDGES,))), in_channels=WIDTH, out_channels=4,
           num_relations=3),
    _gin, _nn_conv, _edge_conv, _gps,
]  # fmt: skip
