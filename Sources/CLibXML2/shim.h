#ifndef QUIRE_CLIBXML2_SHIM_H
#define QUIRE_CLIBXML2_SHIM_H

// Debian's libxml2 includes ICU's headers, whose UErrorCode differs from the one Foundation brings.
#include <libxml/xmlversion.h>
#undef LIBXML_ICU_ENABLED

#include <libxml/parser.h>
#include <libxml/tree.h>
#include <libxml/xmlerror.h>
#include <libxml/xmlreader.h>
#include <libxml/xmlsave.h>
#include <libxml/xmlwriter.h>

#endif
