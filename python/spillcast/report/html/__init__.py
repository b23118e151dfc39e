"""One self-contained HTML page of any results of spillcast.

A page is made of JSON documents alone: those of other verbs, and one for each run. Redaction
replaces texts in them before there is a chart or a sentence, so nothing can bypass it:
``redact.py`` lists the keys whose texts pass and the forms that they must have. Sentences are left
out, for they may quote anything; a warning keeps the title and the advice of its code.

Charts are functions of plain values that return HTML and inline SVG, for screens, phones and paper.
The page's Content-Security-Policy allows no address, and no script but the one that copies.
"""
