"""Two calibrations, compared, in every form that `redline compare` writes."""

from dataclasses import dataclass

from redline.probes.compare import Comparison


@dataclass(frozen=True, kw_only=True)
class ProfileComparison:
    """Two calibrations held against each other; `synthetic` where one of them was made up."""

    comparison: Comparison
    synthetic: bool
    made_by: str

    def rendered(self, form: str, *, unicode: bool = True) -> str:
        """As html, json, md, csv or text."""
        from redline.report.calibrate import compare_csv, compare_json, compare_md, compare_text

        if form == "json":
            return compare_json.render(self.comparison, synthetic=self.synthetic, made_by=self.made_by)
        if form == "csv":
            return compare_csv.render(self.comparison)
        if form == "html":
            from redline.report.html.calibrate import compare_page

            return compare_page.render(self.comparison)
        if form == "md":
            return compare_md.render(self.comparison)
        return compare_text.render(self.comparison, unicode=unicode)
