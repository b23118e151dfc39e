"""Secrets are removed in every form in which programs receive them."""

from cases import cases
from spillcast.redaction import masked_arguments, masked_text

SECRET = "Zq7x_Hunter2"
ARGUMENTS = [
    ["mysql", "-u", "root", f"-p{SECRET}", "db"],
    ["/opt/my/bin/mysqldump", f"-p{SECRET}"],
    ["program", f"-p{SECRET}"],
    ["program", "-pzqxhunter" + SECRET],
    ["psql", f"--password={SECRET}"],
    ["psql", f"--password={SECRET} and more {SECRET}"],
    ["mysql", "--password", SECRET],
    ["mysql", "--password", f"-{SECRET} with blanks {SECRET}"],
    ["loader", "--db-password", SECRET, "--api-key", SECRET, "--token", SECRET],
    ["loader", f"--db_pass={SECRET}", f"--secret-key={SECRET}", f"--auth-token={SECRET}"],
    ["env", f"PGPASSWORD={SECRET}", "psql", "-p", "5432"],
    ["env", f"AWS_SECRET_ACCESS_KEY={SECRET}", f"MYSQL_PWD={SECRET} x {SECRET}", "x"],
    ["psql", f"host=db user=etl password={SECRET} dbname=dw"],
    ["psql", f"host=db password='{SECRET} {SECRET}' dbname=dw"],
    ["psql", rf"host=db password='it\'s {SECRET}' dbname=dw"],
    ["psql", f"postgres://etl:{SECRET}@db:5432/dw?sslmode=require"],
    ["psql", f"postgresql://etl:a@b:{SECRET}@db/dw"],
    ["psql", f"postgres://db/dw?user=etl&password={SECRET}&sslpassword={SECRET}"],
    ["redis-cli", "-a", SECRET, "get", "x"],
    ["redis-cli", "-u", f"redis://:{SECRET}@host"],
    ["sshpass", "-p", SECRET, "ssh", "host"],
    ["sshpass", f"-p{SECRET}", "ssh", "host"],
    ["mongosh", "-u", "etl", "-p", SECRET],
    ["sqlcmd", "-U", "sa", "-P", SECRET],
    ["sqlplus", f"scott/{SECRET}@orcl"],
    ["sqlplus", "-s", f"scott/{SECRET}"],
    ["expdp", f"userid=scott/{SECRET}", "full=y"],
    ["java", f"jdbc:oracle:thin:scott/{SECRET}@//db:1521/orcl"],
    ["curl", "-u", f"etl:{SECRET}", "https://host"],
    ["curl", "-H", f"Authorization: Bearer {SECRET}", "https://host"],
    ["curl", "-H", f"Authorization: Basic {SECRET}"],
    ["git", "clone", f"https://{SECRET}abcdefgh@github.com/x/y"],
    ["bash", "-c", f"mysql -u root -p{SECRET} < x.sql"],
    ["bash", "-c", f"mysql --password {SECRET} -e 'select 1'"],
    ["bash", "-c", f"PGPASSWORD='{SECRET} {SECRET}' psql -h db"],
    ["duckdb", "-c", f"create secret (type s3, key_id 'x', secret '{SECRET}')"],
    ["duckdb", "-c", f"attach 'host=db password={SECRET}' as pg (type postgres)"],
    ["python", "-c", f'connect({{"user": "etl", "password": "{SECRET}"}})'],
    ["x", "-----BEGIN RSA PRIVATE KEY-----\n" + SECRET + "\n-----END RSA PRIVATE KEY-----"],
]
STATEMENTS = [
    f"alter role etl password '{SECRET}'",
    f"create user etl with encrypted password '{SECRET}'",
    f"ALTER ROLE etl PASSWORD E'a\\'{SECRET}'",
    f"alter role etl password $${SECRET}$$",
    f"alter role etl password $x${SECRET}$x$",
    f"alter user scott identified by {SECRET}",
    f'alter user scott identified by "{SECRET}"',
    f"alter user scott identified by values '{SECRET}'",
    f"create user 'etl'@'%' identified with mysql_native_password by '{SECRET}'",
    f"set password = '{SECRET}'",
    f"select * from users where password = '{SECRET}' and token='{SECRET}'",
    f"select pgp_sym_decrypt(note, '{SECRET}') from notes",
    f"select crypt('{SECRET}', gen_salt('bf'))",
    f"create server x options (user 'etl', password '{SECRET}')",
    f"create subscription s connection 'host=x password={SECRET}' publication p",
    f"select dblink('postgres://etl:{SECRET}@db/dw', 'select 1')",
    f"select * from s3('https://b.s3.amazonaws.com/x.csv', 'key', '{SECRET}', 'CSV')",
    f"SELECT * FROM remote('h:9000', view(SELECT 1), 'etl', '{SECRET}')",
    f"create table t (x Int8) engine = MySQL('h:3306', 'db', 't', 'etl', '({SECRET})')",
    f"SELECT * FROM remote('h', view(SELECT count(x) FROM t), 'etl', '{SECRET}')",
    f"select * from s3Cluster(default, 'https://b.s3.amazonaws.com/x', 'key', '{SECRET}')",
    f"select * from deltaLake(concat('https://', 'h'), 'key', '{SECRET}')",
    f"create table t engine = MaterializedPostgreSQL('h:5432', 'db', 't', 'etl', '{SECRET}')",
    f"select encrypt('aes-256-gcm', note, '{SECRET}'), AES_DECRYPT(note, '{SECRET}') from notes",
    f"select * from 'https://a.blob.core.windows.net/c/x.csv?sv=2024&sig={SECRET}&se=2027'",
    f"select * from 's3://b/x?X-Amz-Signature={SECRET}&X-Amz-Date=20261129'",
    f"select 'AKIA' || 'x', '{'AKIA' + 'A1B2C3D4E5F6G7H8'}', 'ghp_{SECRET * 3}'",
]


@cases("arguments", ARGUMENTS)
def test_no_secret_is_left_in_arguments(arguments):
    struck = masked_arguments(arguments)
    assert SECRET not in " ".join(struck)
    assert len(struck) == len(arguments)
    # A second pass changes nothing, as kept text may pass twice.
    assert SECRET not in " ".join(masked_arguments(struck))


@cases("statement", STATEMENTS)
def test_no_secret_is_left_in_a_statement(statement):
    struck = masked_text(statement)
    assert SECRET not in struck
    assert "AKIAA1B2C3D4E5F6G7H8" not in struck
    assert "***" in struck


FUNCTIONS = (
    *(
        "iceberg",
        "DeltaLakeAzure",
        "hudiS3",
        "paimon",
        "s3Cluster",
        "azureBlobStorage",
        "gcs",
        "oss",
    ),
    *("cosn", "remoteSecure", "mysql", "MaterializedPostgreSQL", "mongodb", "redis", "S3Queue"),
    *("externalDistributed", "aes_encrypt_mysql", "tryDecrypt", "crypt", "hmac", "pgp_pub"),
)
NAMES = (
    *("password", "passwd", "passphrase", "PassCode", "db_pass", "myPwd", "pw", "auth", "tokens"),
    *("Authorization", "client_secret", "credential", "Credentials", "private-key", "sig"),
    *("signature", "apiKey", "access_key", "account-key", "encryption_key", "sessionkey"),
)
SHAPES = (
    *("ghp_", "GHO_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xoxb-", "xoxp-", "sk-"),
    *("AKIA", "ASIA", "eyJhbGciOiJI.eyJz.", "bearer ", "Basic ", "-----BEGIN PRIVATE KEY-----"),
)
FORMS = [
    *(f"select * from {name}('https://host', '{SECRET}')" for name in FUNCTIONS),
    *(f"select 1 where {name} = '{SECRET}'" for name in NAMES),
    *(f"x --{name} {SECRET}" for name in NAMES),
    *(f"select {shape}A1B2C3D4E5F6G7H8" for shape in SHAPES),
]


@cases("text", FORMS)
def test_each_function_name_and_shape_is_masked(text):
    assert "***" in masked_text(text)


@cases("text", [form for text in (*STATEMENTS, *map(" ".join, ARGUMENTS), *FORMS)
                for form in (text, text.upper())])  # fmt: skip
def test_words_rule_out_no_pattern_that_matches(text):
    """A text with a letter outside of ASCII is searched with all patterns."""
    assert f"\u00e9 {masked_text(text)}" == masked_text(f"\u00e9 {text}")


def test_text_without_secrets_is_unchanged():
    for arguments in (
        ["psql", "-p", "5432", "-h", "db", "-U", "etl", "-d", "dw"],
        ["psql", "-p5432"],
        ["find", ".", "-print0", "-path", "x"],
        ["mkdir", "-p", "/srv/x"],
        ["duckdb", "-c", "select 'it''s', a.price from t a join u using (id) where x = 1"],
        ["sort", "-t:", "-k2", "--parallel=4", "-T", "/mnt/x"],
        ["docker", "run", "-u", "1000:1000", "-p", "80:80"],
        ["spark-submit", "s3://bucket/x/y@2.jar", "hdfs://name:8020/x"],
        ["cp", "./x/y@z", "/a/b@c"],
        ["it's", "that's"],
    ):
        assert masked_arguments(arguments) == arguments
    for text in (
        "select count(*) from passwords p join tokens t on t.id = p.id",
        "select max(tokenizer) from t group by authority",
        "insert into t values ('it''s', 3), ('compass', 4)",
        "direct path read temp",
    ):
        assert masked_text(text) == text


def test_values_of_secret_variables_are_removed_everywhere(monkeypatch):
    monkeypatch.setenv("PGPASSWORD", SECRET)
    monkeypatch.setenv("MY_TOKEN", "postgres")
    assert masked_arguments(["x", f"a{SECRET}b", "postgres"]) == ["x", "a***b", "postgres"]
    assert masked_text(f"say {SECRET}") == "say ***"


def test_the_value_of_a_secret_that_is_set_later_is_removed_from_a_repeated_text(monkeypatch):
    assert masked_text(f"repeat {SECRET}") == f"repeat {SECRET}"
    monkeypatch.setenv("PGPASSWORD", SECRET)
    assert masked_text(f"repeat {SECRET}") == "repeat ***"


@cases("part", ["://a:", ":thin:", "a/", "--a-", "password '", "pgp_x(", "mysql -p ", "-", "eyJ."])
def test_a_long_text_takes_linear_time(part):
    """For a text of this length, quadratic work would not end within the suite."""
    text = part * (100_000 // len(part))
    assert masked_text(f"{text} password={SECRET}").endswith("***")
