// Tests make stores themselves, which programs leave to a coordinator.
@_exported public import QuireAtomicStores
@_exported public import QuireSQLite
@_exported public import QuireStore
