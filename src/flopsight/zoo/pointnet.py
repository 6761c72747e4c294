"""PointNet (Qi et al., 2017) for classification: shared layers over points, aligned by two small networks."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812


class Tnet(nn.Module):
    """Looks at a cloud and answers with the k x k matrix that turns it upright."""

    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k
        self.conv1 = nn.Conv1d(k, 64, kernel_size=1)
        self.conv2 = nn.Conv1d(64, 128, kernel_size=1)
        self.conv3 = nn.Conv1d(128, 1024, kernel_size=1)
        self.fc1 = nn.Linear(1024, 512)
        self.fc2 = nn.Linear(512, 256)
        self.fc3 = nn.Linear(256, k * k)
        self.bn1 = nn.BatchNorm1d(64)
        self.bn2 = nn.BatchNorm1d(128)
        self.bn3 = nn.BatchNorm1d(1024)
        self.bn4 = nn.BatchNorm1d(512)
        self.bn5 = nn.BatchNorm1d(256)

    def forward(self, cloud: Tensor) -> Tensor:
        """One matrix a cloud, near the identity."""
        x = F.relu(self.bn1(self.conv1(cloud)))
        x = F.relu(self.bn2(self.conv2(x)))
        x = F.relu(self.bn3(self.conv3(x)))
        x = x.amax(dim=-1)
        x = F.relu(self.bn4(self.fc1(x)))
        x = F.relu(self.bn5(self.fc2(x)))
        identity = torch.eye(self.k, dtype=x.dtype, device=x.device)
        return self.fc3(x).view(-1, self.k, self.k) + identity


class Transform(nn.Module):
    """Aligns the points, then their features, and takes the maximum over the cloud."""

    def __init__(self) -> None:
        super().__init__()
        self.input_transform = Tnet(k=3)
        self.feature_transform = Tnet(k=64)
        self.conv1 = nn.Conv1d(3, 64, kernel_size=1)
        self.conv2 = nn.Conv1d(64, 128, kernel_size=1)
        self.conv3 = nn.Conv1d(128, 1024, kernel_size=1)
        self.bn1 = nn.BatchNorm1d(64)
        self.bn2 = nn.BatchNorm1d(128)
        self.bn3 = nn.BatchNorm1d(1024)

    def forward(self, cloud: Tensor) -> Tensor:
        """1024 features of a cloud, whatever the order of its points."""
        aligned = _turn(cloud, self.input_transform(cloud))
        features = F.relu(self.bn1(self.conv1(aligned)))
        features = _turn(features, self.feature_transform(features))
        features = F.relu(self.bn2(self.conv2(features)))
        features = self.bn3(self.conv3(features))
        return features.amax(dim=-1)


class PointNet(nn.Module):
    """Ten classes from clouds of points; 3,463,763 parameters."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.transform = Transform()
        self.fc1 = nn.Linear(1024, 512)
        self.fc2 = nn.Linear(512, 256)
        self.fc3 = nn.Linear(256, classes)
        self.bn1 = nn.BatchNorm1d(512)
        self.bn2 = nn.BatchNorm1d(256)
        self.dropout = nn.Dropout(p=0.3)
        self.logsoftmax = nn.LogSoftmax(dim=1)

    def forward(self, cloud: Tensor) -> Tensor:
        """Logarithms of the class probabilities."""
        x = F.relu(self.bn1(self.fc1(self.transform(cloud))))
        x = F.relu(self.bn2(self.dropout(self.fc2(x))))
        return self.logsoftmax(self.fc3(x))


def _turn(points: Tensor, matrix: Tensor) -> Tensor:
    """Multiply every point, a column, by its cloud's matrix."""
    return torch.bmm(points.transpose(1, 2), matrix).transpose(1, 2)


def inputs(batch: int) -> dict[str, Tensor]:
    """Clouds of 1024 points."""
    return {"cloud": torch.randn(batch, 3, 1024)}
