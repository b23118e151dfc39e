"""Experiments: the same query on several storages, forecast and measured."""
