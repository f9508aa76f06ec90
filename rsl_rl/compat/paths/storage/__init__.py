"""Modules of earlier versions in this package."""
