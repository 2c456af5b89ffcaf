"""Documents, sentences, renderers and masking: a `Document` is built from results and rendered as text.

Reads no files and prints nothing; importing it loads no renderer.
"""
