"""One self-contained HTML page of any results of spillcast.

A page is made of JSON documents alone: those of other verbs, and one for each run. Redaction
replaces texts in them before there is a chart or a sentence, so nothing can bypass it. It is an
allow-list: a text passes only if ``redact.py`` lists its key and it has the form of that key (a
known wait event, a catalogue storage, a date, a SQL_ID). Sentences, which may quote anything, are
left out; a warning keeps the title and the advice of its code.

Charts are functions of plain values that return HTML: shapes are inline SVG, texts stand in cells
of their own. So one drawing fits a screen, a phone and paper, and needs neither a script nor a
drawing library. Colours are custom properties of the page, which change with the colour scheme.
The page's Content-Security-Policy allows no address, and no script but the one that copies, known
by its hash.
"""
