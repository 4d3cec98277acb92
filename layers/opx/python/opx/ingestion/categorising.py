"""Chooses the category of a document, within the trust of its channel and its folder.

Of option or API, sidecar, folder and front matter the first that states a category counts. Only the option of an attested
channel may state one that is more trusted than the folder's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from opx.domain.documents import Remark, RemarkKind
from opx.domain.knowledge import Category, KnowledgeModel
from opx.formats.registry import family_of
from opx.ingestion.channels import Arrival


@dataclass(slots=True)
class CategoryChoice:
    """The choice for one object of the name `source` in its scope. `at_most` is the most trusted category that its channel
    may claim, if there is a rule. `remarks` lists refused claims. Raises `UnknownCategoryError`."""

    knowledge: KnowledgeModel
    source: str
    arrival: Arrival
    at_most: Category | None
    remarks: list[Remark] = field(default_factory=list)
    is_stated: bool = False
    """True if option or sidecar state the category, so that front matter doesn't."""

    def before_parsing(self, uploaded: Mapping[str, Any], sidecar: Mapping[str, Any], name: str) -> Category:
        """The category by everything but front matter: of the option, the sidecar, the folder, the name or format of the
        file, or the default."""
        folder = self.knowledge.category_of_path(self.source)
        stated = self._option(uploaded, folder) or self._stated("sidecar", sidecar.get("category"), folder)
        self.is_stated = stated is not None
        found = stated or folder or self.knowledge.category_of_file(name, family_of(name))
        return self._within_channel(found or self.knowledge.category(self.knowledge.default_category))

    def after_parsing(self, category: Category, front_matter: str | None) -> Category:
        """The category after front matter, which decides where no folder does, and may lower the trust of a folder's."""
        if self.is_stated or not front_matter:
            return category
        folder = self.knowledge.category_of_path(self.source)
        claimed = self._stated("front matter", front_matter, folder)
        if claimed is None or (folder and claimed.trust == folder.trust):
            return category
        return self._within_channel(claimed)

    def _option(self, uploaded: Mapping[str, Any], folder: Category | None) -> Category | None:
        """The category of the object's own metadata. Anyone with a right to write to a bucket can state them: only those of
        an attested object may raise the folder's."""
        stated = uploaded.get("category")
        if self.arrival.attested:
            return self.knowledge.category(str(stated)) if stated else None
        return self._stated("object's metadata", stated, folder)

    def _stated(self, where: str, stated: object, folder: Category | None) -> Category | None:
        """A stated category that the folder's allows."""
        if not stated:
            return None
        claimed = self.knowledge.category(str(stated))
        if folder is None or claimed.is_within(folder):
            return claimed
        self._remark(f"its {where} has the category {claimed.path}; that of its folder, {folder.path}, stands")
        return None

    def _within_channel(self, category: Category) -> Category:
        if self.at_most is None or category.is_within(self.at_most):
            return category
        channel = self.arrival.channel.title
        self._remark(f"the category {category.path} is above what {channel} may claim, which is {self.at_most.path}")
        return self.at_most

    def _remark(self, text: str) -> None:
        remark = Remark(RemarkKind.CLAIMED, text)
        if remark not in self.remarks:
            self.remarks.append(remark)
