"""What is fitted: linear models, networks and boosted trees, each a frozen value that owns its parameters."""

from cldrank.models.linear.model import Linear
from cldrank.models.model import Model, models
from cldrank.models.network.model import MLP
from cldrank.models.run import Epoch, Run
from cldrank.models.trees.model import Trees

__all__ = ["MLP", "Epoch", "Linear", "Model", "Run", "Trees", "models"]
