"""The sentences of reports: only here do numbers become text for people."""
