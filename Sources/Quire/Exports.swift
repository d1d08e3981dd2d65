// An app needs one import: errors, and what files are protected with, are part of this module's own interface.
@_exported public import QuireProtection
@_exported public import QuireSystem
