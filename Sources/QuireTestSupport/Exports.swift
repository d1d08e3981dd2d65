// Tests open and create stores directly, not only through a coordinator.
@_exported public import QuireAtomicStores
@_exported public import QuireSQLite
@_exported public import QuireStore
