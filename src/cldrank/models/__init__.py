"""What is fitted: linear models, networks and boosted trees, each a frozen value that owns its parameters."""

from cldrank.models.linear.linear_model import Linear
from cldrank.models.model import Model, models
from cldrank.models.network.mlp import MLP
from cldrank.models.run import Epoch, Run
from cldrank.models.trees.tree_model import Trees

__all__ = ["MLP", "Epoch", "Linear", "Model", "Run", "Trees", "models"]
