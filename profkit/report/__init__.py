"""What to say and how it looks: a `Document` built from results, and one renderer per output.

``diff_document`` and ``show_document`` decide what is in a report and in which order; ``terminal`` and ``markdown``
turn a document into a string, ``jsondoc`` writes the results themselves. Nothing here reads files, compares
profiles or prints. Importing the package imports none of the renderers.
"""
