"""Words of PostgreSQL's message catalogues (versions 15 and 18), and their English messages."""

import re
from collections import Counter, defaultdict
from contextlib import suppress
from functools import cache
from itertools import chain, islice

#: The words of a level in all languages that have a word of their own for it.
_LEVELS = {
    "LOG": "ჟურნალი|로그|СООБЩЕНИЕ|LOGG|ЗАПИСУВАННЯ|日志|DZIENNIK",
    "STATEMENT": (
        "ANWEISUNG|SENTENCIA|INSTRUCTION|ISTRUZIONE|文|ოპერატორი|명령 구문|ОПЕРАТОР|SATS|ІНСТРУКЦІЯ"
        "|语句|PERNYATAAN|WYRAŻENIE|COMANDO|KOMUT"
    ),
    "DETAIL": (
        "DETALLE|DÉTAIL|DETTAGLI|詳細|დეტალები|상세정보|ПОДРОБНОСТИ|DETALJ|ВІДОМОСТІ|详细信息|DETIL"
        "|SZCZEGÓŁY|DETALHE|AYRINTI"
    ),
    "HINT": (
        "TIPP|ASTUCE|SUGGERIMENTO|ヒント|მინიშნება|힌트|ПОДСКАЗКА|TIPS|УКАЗІВКА|提示|PETUNJUK"  # noqa: RUF001
        "|PODPOWIEDŹ|DICA|İPUCU"
    ),
    "QUERY": (
        "ANFRAGE|CONSULTA|REQUÊTE|問い合わせ|მოთხოვნა|쿼리|ЗАПРОС|FRÅGA|ЗАПИТ|查询|ZAPYTANIE|SORGU"
    ),
    "CONTEXT": (
        "ZUSAMMENHANG|CONTEXTO|CONTEXTE|CONTESTO|文脈|კონტექსტი|내용|КОНТЕКСТ|KONTEXT|上下文|KONTEKS"  # noqa: RUF001
        "|KONTEKST|ORTAM"
    ),
    "ERROR": "FEHLER|ERREUR|ERRORE|შეცდომა|오류|ОШИБКА|FEL|ПОМИЛКА|错误|BŁĄD|ERRO|HATA",
    "FATAL": (
        "FATALE|ფატალური|치명적오류|ВАЖНО|FATALT|ФАТАЛЬНО|致命错误|KATASTROFALNY"
        r"|ÖLÜMCÜL \(FATAL\)"
    ),
    "PANIC": "PANIK|PANICO|პანიკა|손상|ПАНИКА|ПАНІКА|比致命错误还过分的错误|PANIKA|PÂNICO|KRİTİK",
    "WARNING": (
        "WARNUNG|ATTENTION|ATTENZIONE|გაფრთხილება|경고|ПРЕДУПРЕЖДЕНИЕ|VARNING|ПОПЕРЕДЖЕННЯ|警告"
        "|PERINGATAN|OSTRZEŻENIE|AVISO|UYARI"
    ),
}
#: The English level of each word, and a pattern of all levels in all languages.
ENGLISH = {
    word.replace("\\", ""): level for level, words in _LEVELS.items() for word in words.split("|")
}
LEVEL = "|".join(
    ("LOG|STATEMENT|DETAIL|HINT|CONTEXT|ERROR|FATAL|PANIC|WARNING|NOTICE|INFO|QUERY|LOCATION",
     *_LEVELS.values())
)  # fmt: skip
#: ENOSPC in the languages that both glibc and PostgreSQL have.
NO_SPACE = (
    "No space left on device|Auf dem Gerät ist kein Speicherplatz mehr verfügbar|设备上没有空间"
    "|No queda espacio en el dispositivo|Aucun espace disponible sur le périphérique"
    "|Spazio esaurito sul device|デバイスに空き領域がありません|장치에 남은 공간이 없음"
    "|Não há espaço disponível no dispositivo"
    "|На устройстве не осталось свободного места"  # noqa: RUF001
    "|Brak miejsca na urządzeniu|Tidak ruang lagi diperangkat"
    "|Enheten är full|Aygıt üzerinde boş yer yok|Недостатньо місця на пристрої"  # noqa: RUF001
)
#: What precedes the statement in the duration of a call: of a statement, of a part of its rows, and
#: of a prepared statement.
_OF_STATEMENT = (
    "Anweisung|sentencia|instruction|istruzione|文|გამოსახულება|명령 구문|оператор|sats|语句"
    "|perintah|wyrażenie|comando|komut"
)
_FETCH = (
    "Ausführen Fetch von|ejecutar fetch desde|exécute fetch à partir de|esecuzione di fetch da"
    "|取り出し実行|자료뽑기|выборка из|kör hämtning från|виконати витягнення з|执行FETCH操作"
    "|menjalankan 'fetch' dari|wykonanie pobrania z|executar busca de|execute fetch from"
)
_EXECUTE = (
    "Ausführen|ejecutar|exécute|esecuzione di|実行|გაშვება|쿼리실행|выполнение|kör|виконувати|执行"
    "|menjalankan|wykonanie|executar|execute"
)
#: What precedes the time of a call in a server's message, and in psql's line below its rows.
_SUBJECT = (
    "Dauer|duración|durée|durasi|durata|期間|ხანგრძლივობა|실행시간|수행시간|czas trwania|duração"
    "|продолжительность|varaktighet|süre|тривалість|执行时间"
)
PSQL_TIME = (
    "Time|Čas|Zeit|Χρόνος|Tiempo|Duración|Temps|Durée|Tempo|時間|დრო|작업시간|시간|Czas|Время|Tid"
    "|Süre|Час|时间"
)
#: Milliseconds, which have three decimals.
MILLISECONDS = r"(?:ms|мс|ミリ秒|მწმ|milisaniye)s?"
_DURATION = re.compile(
    rf"(?:{_SUBJECT}) ?:? (?P<ms>\d+\.\d{{3}}) {MILLISECONDS}"
    rf"(?:\W+(?:(?:{_OF_STATEMENT}) ?|(?P<fetch>{_FETCH})[^:]{{,200}}|(?:{_EXECUTE})[^:]{{,200}})"
    r": |$)"
)
#: A quoted path of a temp file and its size, among words of any language but English.
_TEMP_FILE = re.compile(
    r"(?!temporary)[^\W\d_][^\d\"«»:]{2,30}:[^\d\"«»:]{2,20}[\"«»]"
    r"\s?(?P<path>[^\"«»]{,999}pgsql_tmp\d[^\"«»]{,999}?)\s?[\"«»][,、]\D{1,20}(?P<bytes>\d+)"
)
#: Encodings of texts whose letters Windows-1252 lacks.
_ENCODINGS = (
    *("cp1251", "koi8_u", "cp866", "iso8859_5", "gb18030", "cp932", "euc_jp", "cp949", "cp1250"),
    "iso8859_2",
)
#: The last word before the colon of a message about a temp file or a duration.
_SUBJECTS = ("файл", "파일", "一時ファイル", "临时文件", *_SUBJECT.split("|"))
#: Fewer bytes may be a word by chance, and fewer bytes that continue characters may be UTF-8.
_WORD_BYTES_MIN, _CHANCE_BYTES = 4, 3
#: This many words decide.
_WORDS_MAX = 100
#: A word before a colon or the end of a cell.
_WORD = re.compile(rb"(?:^|(?<=[ \t\",]))([^ \t\n\":,]{4,40})(?= ?:|[\",])", re.MULTILINE)


def in_english(message: str) -> str:
    """A message about a temp file or a duration, translated from another language to English."""
    if file := _TEMP_FILE.match(message):
        english = f'temporary file: path "{file["path"]}", size {file["bytes"]}'
        return english + message[file.end() :]
    if duration := _DURATION.match(message):
        call = "execute fetch from portal" if duration["fetch"] else "statement"
        return f"duration: {duration['ms']} ms  {call}: {message[duration.end() :]}"
    return message


def temp_file_at(line: str) -> int | None:
    """The position of a message about a temp file in an unknown language; None if there is none."""
    match = None if "temporary file: path" in line else _TEMP_FILE.search(line)
    return None if match is None else match.start()


def in_utf8(content: bytes) -> bytes:
    """The lines of a server's log that are in another encoding, in UTF-8.

    A word that servers write shows the encoding. Other content is returned as it is.
    """
    if _is_utf8(content):
        return content
    words = (_encodings_by_word().get(match[1], ()) for match in _WORD.finditer(content))
    votes = Counter(chain.from_iterable(islice(filter(None, words), _WORDS_MAX)))
    if not votes:
        return content
    [(encoding, _)] = votes.most_common(1)
    return b"".join(
        line if _is_utf8(line, _CHANCE_BYTES) else line.decode(encoding, "replace").encode()
        for line in content.splitlines(keepends=True)
    )


def _is_utf8(content: bytes, more_bytes: int = 0) -> bool:
    """Whether content is UTF-8, with at least ``more_bytes`` more bytes than characters."""
    with suppress(UnicodeDecodeError):
        return len(content) - len(content.decode()) >= more_bytes
    return False


@cache
def _encodings_by_word() -> dict[bytes, list[str]]:
    """The encodings of each word that servers write in letters that Windows-1252 lacks."""
    encodings = defaultdict[bytes, list[str]](list)
    for word in (*ENGLISH, *_SUBJECTS, *_OF_STATEMENT.split("|")):
        if _encoded(word, "cp1252") is None:
            for name in _ENCODINGS:
                if len(coded := _encoded(word, name) or b"") >= _WORD_BYTES_MIN:
                    encodings[coded].append(name)
    return dict(encodings)


def _encoded(word: str, encoding: str) -> bytes | None:
    with suppress(UnicodeEncodeError):
        return word.encode(encoding)
    return None
