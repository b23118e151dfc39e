//! The thin Python binding: Arrow in, Arrow out, progress, Ctrl-C.
