"""Every sentence of a report, made of results: verdicts, evidence, advice, the account, what moved.

The only place where numbers become text for people; a test checks that every identifier has words here.
Formats nothing for one output.
"""
