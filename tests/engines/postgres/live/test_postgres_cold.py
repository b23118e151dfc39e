"""Tables that a PostgreSQL query reads from slow storage: a term of its forecast, and a warning."""

from postgres_rig import recorder, until_attached
from spillcast.forecast import forecast
from spillcast.recording import Recording
from spillcast.storage.target import resolve

PAGES = 1500
#: A table on the slow storage, of which the server has no page in memory: it was copied there.
TABLE = (
    "drop table if exists cold",
    "create table cold as select i as id, repeat('x', 950) as f "
    f"from generate_series(1, {8 * PAGES}) i",
    "alter table cold set tablespace slow",
)
QUERY = "select count(*) from (select id, f from cold order by f, id offset 0) s"
#: Settings of a session that waits for page after page.
ONE_BY_ONE = {"io_combine_limit": "1", "effective_io_concurrency": "1"}


def test_cold_tables_are_a_term_and_a_warning(newest, tmp_path):
    output = tmp_path / "run.spill"
    with newest.connect() as connection:
        for statement in TABLE:
            connection.execute(statement)
    with newest.client(work_mem="1MB", temp_tablespaces="", **ONE_BY_ONE) as client:
        with recorder(output, "--postgres", newest.dsn, "--backend", client.pid) as process:
            until_attached(output, process)
            client.run(QUERY)
            client.result()
            _, stderr = process.communicate()
        assert process.returncode == 0, stderr
    recording = Recording.open(output)
    said = forecast(recording, resolve("latency:100us", recording))
    [term] = [term for term in said.terms if term.name == "data reads"]
    assert term.baseline_s > 0.05 * said.baseline_s
    assert said.warm.baseline_s == said.baseline_s - term.baseline_s
    assert "cold-data" in {warning.code for warning in said.warnings}
