"""The parts that local and remote jobs both need before they start: the request, its files, its layout."""
