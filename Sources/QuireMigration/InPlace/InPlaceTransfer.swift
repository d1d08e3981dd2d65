import Foundation
internal import QuireModel
internal import QuireSQLite
internal import QuireSystem

/// Fills a store's tables anew, row by row, with the rows that it had before the transaction.
struct InPlaceTransfer {
    let plan: TransferPlan
    let old: SQLSchema
    let new: SQLSchema
    let connection: SQLiteConnection
    let source: SQLiteStoreSource
    /// Whether there is a write-ahead log, so that what was before can be read beside the transaction.
    let hasLog: Bool
    let manager: MigrationManager
    let loading: SQLiteBulkLoad

    func run(
        _ completion: SQLiteSchemaCompletion,
        checkpoint: (SQLiteMigration.Checkpoint) throws -> Void
    ) throws {
        // Before anything is written: without a log nobody can read later.
        let (store, folder) = try openSource()
        defer {
            try? store.close()
            folder?.remove()
        }
        try completion.removeParts()
        try completion.removeTables(of: old)
        let statements = SQLSchemaStatements(schema: new)
        for sql in statements.tables + statements.joinTables { try connection.execute(sql) }
        try checkpoint(.tablesMade)
        try manager.countUnits(of: plan, in: store)
        let check =
            manager.allowsRemoval ? nil : try store.counting { try TransferCheck(plan, from: $0) }
        try ObjectTransfer(
            plan, from: store,
            identity: StoreIdentity(
                uuid: store.identity.uuid, entityNames: new.layout.entities.map(\.name)),
            into: loading, policies: manager.policies, step: manager.advance
        ).run()
        try check?.requireAll(
            in: SQLContentCounter(connection: connection, schema: new), path: source.storePath)
    }

    /// The store as it was, and the folder of a copy if it is one.
    private func openSource() throws -> (SQLiteStore, folder: TemporarySibling?) {
        var options = SQLiteStoreOptions()
        options.isReadOnly = true
        let store = try SQLiteStore.open(
            at: source.storePath, model: old.layout.model, options: options)
        if hasLog { return (store, nil) }
        var folder: TemporarySibling?
        do {
            let made = try TemporarySibling.makeFolderInTemporaryDirectory()
            folder = made
            let copy = FileSystem.path(made.path, "store")
            try store.writeCopy(to: copy, linking: true)
            try store.close()
            return (
                try SQLiteStore.open(at: copy, model: old.layout.model, options: options), folder
            )
        } catch {
            try? store.close()
            folder?.remove()
            throw error
        }
    }
}
