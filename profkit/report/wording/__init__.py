"""The sentences of reports: verdicts, evidence, advice, the account, what moved.

Only here do numbers become text for people; a test checks that every identifier has its words.
"""
