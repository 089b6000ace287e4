/* Strings that are made and never given back. */
#include "pyxis.h"

#include <stdarg.h>
#include <stdio.h>

char *text(const char *format, ...)
{
	char *made;
	va_list words;

	va_start(words, format);
	if (vasprintf(&made, format, words) < 0)
		abort();
	va_end(words);
	return made;
}

int has_word(const char *list, const char *word, const char *separators)
{
	char *rest = text("%s", list ? list : ""), *item;
	int found = 0;

	while ((item = strsep(&rest, separators)))
		found |= !strcmp(item, word);
	return found;
}

int exists(const char *path)
{
	return !access(path, F_OK);
}
