#ifndef CTEMPLATES_H
#define CTEMPLATES_H

#include <stddef.h>

/// A file of a template.
struct template_file {
    /// Its path, which begins with the name of the template.
    const char *path;
    const unsigned char *bytes;
    size_t count;
};

/// The files of all templates, and their number.
const struct template_file *template_files(size_t *count);

#endif
