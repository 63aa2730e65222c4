"""Elasticsearch: trees for its own learning to rank."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from cldrank.documents.text import Markdown
from cldrank.export.format import Exported, ExportFormat, ExportRequest, placeholder_query, rendered, written_json
from cldrank.export.forms import learned_missing, tree_features, tree_forms
from cldrank.rankers import TreeRanker


class ElasticSearch(ExportFormat):
    """The trees for XGBoost, features to complete, and a script that uploads both by eland."""

    name = "elasticsearch"
    label = "Elasticsearch"
    takes = (TreeRanker,)
    oldest, newest = "8.12", "9.2"
    takes_negative = False
    model_name = (
        r"[a-z0-9](?:[a-z0-9_.-]{0,62}[a-z0-9])?",
        "at most 64 lowercase letters, digits, '_', '-' and '.', with a letter or digit at both ends",
    )

    def write(self, ranker: TreeRanker, request: ExportRequest, names: Sequence[str]) -> Exported:
        """`model.json`, `features.json` and `upload.py`."""
        trees, learned = tree_forms(ranker), learned_missing(ranker)
        places = tree_features(trees)
        used = [names[place] for place in places] or [names[0]]  # a model without features is refused
        content = json.loads(ranker.content)
        content["learner"]["learner_model_param"]["num_feature"] = str(len(used))
        for tree, form in zip(content["learner"]["gradient_booster"]["model"]["trees"], trees, strict=True):
            # just the features that are used: Elasticsearch computes every feature that a model names
            tree["split_indices"] = np.where(form.splits, np.searchsorted(places, form.feature), 0).tolist()
            tree["tree_param"]["num_feature"] = str(len(used))
        query = placeholder_query("query", zero_elsewhere=not learned)
        # without `default_score`, which Elasticsearch accepts and does not use
        extractors = [
            {"query_extractor": request.definition(name) or {"feature_name": name, "query": query}} for name in used
        ]
        version = request.version or self.newest
        context = {"major": int(version.split(".")[0]), "zero_elsewhere": not learned}
        script = {"name": Markdown(request.name), "names": Markdown(json.dumps(used)), "engine": self.engine(version)}
        return Exported(
            files={
                "model.json": written_json(content, indent=None),
                "features.json": written_json({"learning_to_rank": {"feature_extractors": extractors}}),
                "upload.py": rendered("upload.py", **script, **context),
            },
            to_fill={"features.json": used},
            unmatched="missing" if learned else "zero",
            readme=context,
        )
