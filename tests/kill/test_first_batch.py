"""A process that is killed while its first batch is being planned leaves half a plan; the next start goes on."""

from __future__ import annotations

import tidegate
from tidegate.spark.generation import Generations


def test_half_a_plan_of_the_first_batch_is_swept_away(tmp_path, spark, monkeypatch):
    begin = Generations.begin

    def begin_with_leftovers(self, generation):
        begin(self, generation)
        offsets = self.checkpoint(generation.number).folder / "offsets"
        offsets.mkdir(parents=True)
        (offsets / ".0.7d1f.tmp").write_text("v1\n{")

    monkeypatch.setattr(Generations, "begin", begin_with_leftovers)
    with tidegate.connect(str(tmp_path / "data"), spark=spark) as db:
        db.sql("CREATE TABLE t (k INT PRIMARY KEY, x INT); CREATE MATERIALIZED VIEW v AS SELECT SUM(x) AS s FROM t")
        db.insert("t", [(1, 2), (2, 3)])
        db.step()
        assert db.query("SELECT * FROM v").rows() == [(5,)]
