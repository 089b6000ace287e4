"""Commands that run recipes, made of the catalog's folders, and all that those do."""
