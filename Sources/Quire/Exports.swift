// An app needs one import.
@_exported public import QuireAtomicStores
@_exported public import QuireMigration
@_exported public import QuireModel
@_exported public import QuireModelFiles
@_exported public import QuireProtection
@_exported public import QuireQuery
@_exported public import QuireSQLite
@_exported public import QuireStore
@_exported public import QuireSystem
