"""Server logs and sessions of psql in the languages and encodings of PostgreSQL's users."""

import csv
import io
import json
from gettext import GNUTranslations
from pathlib import Path

import pytest

from cases import cases
from oracle_reports import tkprof
from spillcast.errors import EvidenceDamaged, EvidenceIncomplete, EvidenceMixed, NoTempIo
from spillcast.evidence.postgres.languages import ENGLISH
from spillcast.evidence.postgres.logs import counts_of_logs, read_logs
from spillcast.evidence.postgres.plan import read_plan
from spillcast.evidence.recognise import recognise
from spillcast.evidence.selection import Selection

AT = "2026-11-23 10:00:04.000 UTC [42] "
QUERY = "select 1 -- «ä»"
#: From the message catalogues of PostgreSQL 15 and 18: two levels, a temp file, a call's duration,
#: that of a prepared statement, and the duration of a part of its rows.
LANGUAGES = [
    ("LOG", "STATEMENT:", 'temporary file: path "{}", size {}', "duration: {} ms  statement: {}",
     "duration: {} ms  execute <unnamed>: {}", "duration: {} ms  execute fetch from <unnamed>: {}"),
    ("LOG", "ANWEISUNG:", "temporäre Datei: Pfad »{}«, Größe {}", "Dauer: {} ms  Anweisung: {}",
     "Dauer: {} ms  Ausführen <unnamed>: {}", "Dauer: {} ms  Ausführen Fetch von <unnamed>: {}"),
    ("LOG", "SENTENCIA:", "archivo temporal: ruta «{}», tamaño {}",
     "duración: {} ms  sentencia: {}", "duración: {} ms  ejecutar <unnamed>: {}",
     "duración: {} ms  ejecutar fetch desde <unnamed>: {}"),
    ("LOG", "INSTRUCTION :", "fichier temporaire : chemin « {} », taille {}",
     "durée : {} ms, instruction : {}", "durée : {} ms  exécute <unnamed>: {}",
     "durée : {} ms  exécute fetch à partir de <unnamed>: {}"),
    ("LOG", "PERNYATAAN:", "file sementara: path « {} », ukuran {}", "durasi: {} ms, perintah: {}",
     "durasi: {} ms  menjalankan <unnamed>: {}",
     "durasi: {} ms  menjalankan 'fetch' dari <unnamed>: {}"),
    ("LOG", "ISTRUZIONE:", 'file temporaneo: percorso "{}", dimensione {}',
     "durata: {} ms  istruzione: {}", "durata: {} ms  esecuzione di <unnamed>: {}",
     "durata: {} ms  esecuzione di fetch da <unnamed>: {}"),
    ("LOG", "文:", '一時ファイル: パス "{}"、サイズ {}', "期間: {} ミリ秒  文: {}",
     "期間: {} ミリ秒  実行 <unnamed>: {}", "期間: {} ミリ秒  取り出し実行 <unnamed>: {}"),
    ("ჟურნალი", "ოპერატორი:", 'დროებითი ფაილი: ბილიკი "{}", ზომა {}',
     "ხანგრძლივობა: {} მწმ  გამოსახულება: {}", "ხანგრძლივობა: {} მწმs  გაშვება <unnamed>: {}",
     "ხანგრძლივობა: {} მწმs  execute fetch from <unnamed>: {}"),
    ("로그", "명령 구문:", '임시 파일: 경로 "{}", 크기 {}', "실행시간: {} ms  명령 구문: {}",
     "수행시간: {} ms  쿼리실행 <unnamed>: {}", "수행시간: {} ms  자료뽑기 <unnamed>: {}"),
    ("DZIENNIK", "WYRAŻENIE:", 'plik tymczasowy: ścieżka "{}", rozmiar {}',
     "czas trwania: {} ms  wyrażenie: {}", "czas trwania: {} ms  wykonanie <unnamed>: {}",
     "czas trwania: {} ms  wykonanie pobrania z <unnamed>: {}"),
    ("LOG", "COMANDO:", 'arquivo temporário: caminho "{}", tamanho {}',
     "duração: {} ms  comando: {}", "duração: {} ms  executar <unnamed>: {}",
     "duração: {} ms  executar busca de <unnamed>: {}"),
    ("СООБЩЕНИЕ", "ОПЕРАТОР:", 'временный файл: путь "{}", размер {}',
     "продолжительность: {} мс, оператор: {}", "продолжительность: {} мс  выполнение <unnamed>: {}",
     "продолжительность: {} мс  выборка из <unnamed>: {}"),
    ("LOGG", "SATS:", 'temporär fil: sökväg "{}", storlek {}', "varaktighet: {} ms  sats: {}",
     "varaktighet: {} ms  kör <unnamed>: {}",
     "varaktighet: {} ms  kör hämtning från <unnamed>: {}"),
    ("LOG", "KOMUT:", 'geçici dosya: yol "{}", boyut {}', "süre: {} milisaniye  komut: {}",
     "süre: {} ms  execute <unnamed>: {}", "süre: {} ms  execute fetch from <unnamed>: {}"),
    ("ЗАПИСУВАННЯ", "ІНСТРУКЦІЯ:", 'тимчасовий файл: шлях "{}", розмір {}',
     "тривалість: {} мс, оператор: {}", "тривалість: {} мс виконувати <unnamed>: {}",
     "тривалість: {} мс виконати витягнення з <unnamed>: {}"),
    ("日志", "语句:", '临时文件: 路径 "{}", 大小{}', "执行时间: {} ms 语句: {}",
     "执行时间: {} ms 执行<unnamed>: {}", "执行时间: {} ms 执行FETCH操作<unnamed>: {}"),
]  # fmt: skip


def forms_of(log, statement, messages):
    """Messages as text, csvlog and jsonlog; the statement follows the first one."""
    files, *ended = messages
    lines = [f"{log}:  {files}", f"{statement}  {QUERY}", *(f"{log}:  {text}" for text in ended)]
    table = io.StringIO()
    for text in messages:
        query = QUERY if text == files else ""
        csv.writer(table).writerow(
            [AT[:27], "u", "d", 42, *[""] * 7, log, 0, text, *[""] * 5, query, *[""] * 6]
        )
    records = [
        {"timestamp": AT[:27], "pid": 42, "error_severity": "LOG", "message": text}
        | ({"statement": QUERY} if text == files else {})
        for text in messages
    ]
    return {
        "log": "".join(f"{AT}{line}\n" for line in lines),
        "csv": table.getvalue(),
        "json": "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in records),
    }


def figures_of(path, content):
    """The size, statement and time (s) of each temp file."""
    path.write_bytes(content)
    return [(file.bytes, file.query, file.elapsed_s) for file in read_logs(path).temp]


@cases("log, statement, file, simple, extended, part", LANGUAGES)
def test_messages_of_a_server_are_read_in_any_language(
    tmp_path, log, statement, file, simple, extended, part
):
    removed = file.format("base/pgsql_tmp/pgsql_tmp42.0", 819200)
    for duration in (simple, extended):
        forms = forms_of(log, statement, [removed, duration.format("900.500", QUERY)])
        for name, text in forms.items():
            path = tmp_path / f"pg.{name}"
            assert figures_of(path, text.encode()) == [(819200, QUERY, 0.9005)], name
            assert (kind := recognise(path)) is not None
            assert kind.name == "plans", name
        (mixed := tmp_path / "mixed.txt").write_text(forms["log"] + tkprof())
        with pytest.raises(EvidenceMixed):
            recognise(mixed)
    # A client that fetches rows in parts: the file is removed with the last part.
    begun, *ended = extended.format("500.000", QUERY), part.format("250.000", QUERY)
    lines = [f"{log}:  {text}" for text in (begun, removed, *ended)]
    text = "".join(f"{AT}{line}\n" for line in [*lines[:2], f"{statement}  {QUERY}", lines[2]])
    assert figures_of(tmp_path / "pg.log", text.encode()) == [(819200, QUERY, 0.75)]
    # auto_explain has no catalogue.
    plan = "Sort  (cost=1.0..2.0 rows=1 width=8) (actual time=1.0..900.0 rows=6 loops=1)"
    (path := tmp_path / "plan.log").write_text(
        f"{AT}{log}:  duration: 990.500 ms  plan:\n\tQuery Text: select 1\n\t{plan}\n"
        "\t  Buffers: temp read=100 written=101\n"
    )
    counts = read_plan(path)
    assert (counts.elapsed_s, counts.writes.count) == (0.9905, 101)


CATALOGUES = [*Path("/usr/share/locale").glob("*/LC_MESSAGES/postgres-*.mo")]


@pytest.mark.skipif(not CATALOGUES, reason="no catalogue of a server's messages")
def test_the_words_of_levels_are_those_of_the_installed_servers():
    levels = ["LOG", "ERROR", "FATAL", "PANIC", "WARNING"]
    levels += [f"{level}:  " for level in ("STATEMENT", "DETAIL", "HINT", "QUERY", "CONTEXT")]
    for path in CATALOGUES:
        with path.open("rb") as file:
            server = GNUTranslations(file).gettext
        for level in levels:
            word, english = (text.rstrip(": ") for text in (server(level), level))
            assert ENGLISH.get(word, word) == english, path


#: Encodings of databases and of Windows, by the level of a language.
ENCODINGS = {
    "СООБЩЕНИЕ": ("cp1251", "koi8_r", "cp866", "iso8859_5"),
    "ЗАПИСУВАННЯ": ("cp1251", "koi8_u"),
    "日志": ("gbk", "gb18030"),
    "로그": ("cp949", "euc_kr"),
    "DZIENNIK": ("cp1250", "iso8859_2"),
    "一時ファイル": ("cp932", "euc_jp"),
    "Größe": ("cp1252", "iso8859_15"),
    "geçici": ("cp1254",),
}


@cases("word, encodings", ENCODINGS.items())
def test_a_log_is_read_in_the_encoding_of_its_language(tmp_path, word, encodings):
    [(log, statement, file, simple, *_)] = [
        each for each in LANGUAGES if word in (each[0], *each[2].replace(":", " ").split())
    ]
    messages = [file.format("base/pgsql_tmp/pgsql_tmp42.0", 819200), simple.format("900.500", "")]
    for name, text in forms_of(log, statement, messages).items():
        path = tmp_path / f"pg.{name}"
        ascii_query = text.replace(QUERY, "select 1")
        for encoding in encodings:
            content = ascii_query.encode(encoding)
            assert figures_of(path, content) == [(819200, "select 1", 0.9005)], (name, encoding)
            assert (kind := recognise(path)) is not None
            assert kind.name == "plans", (name, encoding)


def test_each_line_of_a_log_may_have_another_encoding(tmp_path):
    log, statement, file, simple, *_ = next(each for each in LANGUAGES if each[0] == "СООБЩЕНИЕ")
    messages = [file.format("base/pgsql_tmp/pgsql_tmp42.0", 819200), simple.format("900.500", "")]
    # The server's start is logged in the encoding of Windows, a session in that of its database.
    begin = f"{AT}{log}:  система БД была выключена\n".replace("[42]", "[7]")
    content = begin.encode("cp1251") + forms_of(log, statement, messages)["log"].encode()
    assert figures_of(tmp_path / "pg.log", content) == [(819200, QUERY, 0.9005)]


#: What psql prints below a query in some languages: with a comma or a point, and after a minute.
TIMES = {
    "Time: 90061.500 ms (01:30.062)": "Time: 90061.500 ms",
    "Zeit: 90061,500 ms (01:30,062)": "Dauer",
    "Temps : 90061,500 ms": "durée",
    "時間: 90061.500 ミリ秒(01:30.062)": "期間",
    "Время: 90061,500 мс (01:30,062)": "Время",
    "时间：90061.500 ms (01:30.062)": "时间",  # noqa: RUF001
    "Süre: 90061,500 milisaniye": "Süre",
}


@cases("time", TIMES)
def test_psql_shows_the_time_of_a_call_in_any_language(tmp_path, time):
    text = (
        "LOG:  temporäre Datei: Pfad »base/pgsql_tmp/pgsql_tmp42.0«, Größe 819200\n"
        f" count \n-------\n     6\n(1 Zeile)\n\n{time}\n"
    )
    assert figures_of(tmp_path / "session.txt", text.encode()) == [(819200, None, 90.0615)]


@cases(
    "line",
    [
        f"{AT}LOG:  elapsed time: 5.000 ms",
        f"{AT}LOG:  retry after 5.000 ms",
        "Latency: 5.000 ms",
        'backup wrote "base/pgsql_tmp/pgsql_tmp42.1", size 99',
    ],
)
def test_other_lines_in_english_are_no_time_of_a_call_and_no_temp_file(tmp_path, line):
    text = f'{AT}LOG:  temporary file: path "base/pgsql_tmp/pgsql_tmp42.0", size 819200\n{line}\n'
    assert figures_of(tmp_path / "pg.log", text.encode()) == [(819200, None, None)]


@cases("level", ["ZPRÁVA", "LOG"])
def test_a_log_in_an_unknown_language_never_looks_as_if_it_had_no_temp_file(tmp_path, level):
    path = tmp_path / "pg.log"
    # The sizes are known, and the times are not.
    read = f'{AT}{level}:  dočasný soubor: cesta "base/pgsql_tmp/pgsql_tmp42.0", velikost 819200\n'
    assert figures_of(path, read.encode()) == [(819200, None, None)]
    with pytest.raises(EvidenceIncomplete) as caught:
        counts_of_logs(read_logs(path), Selection())
    assert "lc_messages" in str(caught.value.hint)
    path.write_text(f"{AT}LOG:  819200 bajtů má soubor base/pgsql_tmp/pgsql_tmp42.0\n")
    with pytest.raises(EvidenceDamaged) as damaged:
        read_logs(path)
    assert "lc_messages" in str(damaged.value.hint)


@cases("log, statement, file, simple, extended, part", LANGUAGES)
def test_empty_files_are_no_spill_in_any_language(
    tmp_path, log, statement, file, simple, extended, part
):
    messages = [file.format("base/pgsql_tmp/pgsql_tmp42.0", 0), simple.format("900.500", QUERY)]
    for name, text in forms_of(log, statement, messages).items():
        with pytest.raises(NoTempIo):
            figures_of(tmp_path / f"pg.{name}", text.encode())


#: From the same catalogues: a level and the limit of temp files.
LIMITS = [
    ("FEHLER", "Größe der temporären Datei überschreitet temp_file_limit ({}kB)"),
    ("ERROR", "el tamaño del archivo temporal excede temp_file_limit permitido ({}kB)"),
    ("ERREUR", "la taille du fichier temporaire dépasse temp_file_limit ({} Ko)"),
    ("ERRORE", "la dimensione del file temporaneo supera temp_file_limit ({}kB)"),
    ("ERROR", "一時ファイルのサイズがtemp_file_limit({} KB)を超えています"),
    ("შეცდომა", "დროებითი ფაილის ზომა temp_file_limit-ს ({}კბ) აჭარბებს"),
    ("오류", "임시 파일 크기가 temp_file_limit ({}kB)를 초과했습니다"),
    ("ОШИБКА", "размер временного файла превышает предел temp_file_limit ({} КБ)"),
    ("BŁĄD", 'temporary file size exceeds "temp_file_limit" ({}kB)'),
    ("ERRO", 'temporary file size exceeds "temp_file_limit" ({}kB)'),
    ("HATA", 'temporary file size exceeds "temp_file_limit" ({}kB)'),
    ("FEL", "storlek på temporär fil överskrider temp_file_limit ({}kB)"),
    ("ПОМИЛКА", "розмір тимчасового файлу перевищує temp_file_limit ({} Кб)"),  # noqa: RUF001
    ("错误", "临时文件大小超过最大允许值temp_file_limit({}kB)"),
]


@cases("error, limit", LIMITS)
def test_a_limit_is_read_in_any_language(logs_of, error, limit):
    lines = [f"{error}:  {limit.format(1024)}", "STATEMENT:  select 1"]
    at = "2026-11-23 10:00:04.000 UTC [42] "
    [exceeded] = logs_of("".join(f"{at}{line}\n" for line in lines)).exceeded
    assert (exceeded.limit, exceeded.query) == ("temp_file_limit (1024kB)", "select 1")
