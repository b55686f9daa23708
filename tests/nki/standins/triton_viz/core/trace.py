"""Launches that triton_viz recorded: it recorded nothing here."""
launches = []
