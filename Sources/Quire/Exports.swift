@_exported public import QuireMigration
@_exported public import QuireModel
@_exported public import QuireModelFiles
@_exported public import QuireProtection
@_exported public import QuireQuery
@_exported public import QuireSystem

// One import is enough for a program. Authors of stores, and programs that use a store without a coordinator, also import
// QuireStore, QuireSQLite or QuireAtomicStores.
@_exported public import struct QuireAtomicStores.AtomicStoreOptions
@_exported public import struct QuireSQLite.SQLiteStoreOptions
@_exported public import struct QuireStore.ConflictSnapshot
@_exported public import struct QuireStore.ConstraintConflict
@_exported public import struct QuireStore.MergeConflict
@_exported public import class QuireStore.MergePolicy
@_exported public import struct QuireStore.MergeResolution
@_exported public import struct QuireStore.PersistentHistoryChange
@_exported public import struct QuireStore.PersistentHistoryChangeRequest
@_exported public import struct QuireStore.PersistentHistoryResult
@_exported public import struct QuireStore.PersistentHistoryToken
@_exported public import struct QuireStore.PersistentHistoryTransaction
@_exported public import protocol QuireStore.PersistentStore
@_exported public import struct QuireStore.SaveConflicts
@_exported public import struct QuireStore.StoreCapabilities
@_exported public import struct QuireStore.StoreMetadata
@_exported public import struct QuireStore.StoreType
