"""What to say and how it looks: a `Document` built from results, and one renderer per output.

``diff_document`` and ``show_document`` choose contents and order; renderers such as ``terminal`` make strings
of documents; ``jsondoc`` writes the results themselves. Reads no files and prints nothing; importing it loads
no renderer.
"""
