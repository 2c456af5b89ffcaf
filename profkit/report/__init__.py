"""Documents, sentences, renderers and masking; importing this loads no renderer."""
