"""The product: the `nemotron` command. The toolkit under it is `nemo_runspec`."""

__version__ = "0.1.0"

DOCUMENTATION = "https://nemotron.a-seed-156bd48f.example/docs/"
"""Where docs/ will be read: the address in the help, in pyproject.toml and in mkdocs.yml. A name in `.example`
is nobody's (RFC 2606): until the site has a place of its own, nothing answers there."""
