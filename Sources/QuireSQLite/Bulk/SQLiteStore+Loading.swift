package import QuireModel
package import QuireStore

extension SQLiteStore: BulkLoadableStore {
    /// Loads objects in one transaction.
    ///
    /// - Throws: What the closure throws, or ``QuireError`` with code `constraintConflict`, `outOfSpace`, `readOnly` or
    ///   `storeUnavailable`. Then nothing has changed.
    package func load(_ body: (any StoreLoading) throws -> Void) throws {
        try withWriter { writer in
            let connection = writer.connection
            let loading = SQLiteBulkLoad(
                connection: connection, schema: schema, externalData: externalData,
                options: options)
            let completion = SQLiteSchemaCompletion(connection: connection, schema: schema)
            try connection.begin()
            do {
                try writer.modelGuard.checkTriggers(connection)
                if !schema.allComputedIndexes.isEmpty { connection.trustSchema() }
                try completion.removeParts()
                try body(loading)
                try loading.completeOrders()
                try completion.makeParts()
                let greatest = try loading.writeGreatestKeys()
                try loading.synchronizeFiles()
                willRecordPrimaryKeys(greatest)
                try connection.commit()
                didRecordPrimaryKeys(greatest)
            } catch {
                SQLiteSave.undo(after: error as? SQLiteFailure, store: self, writer: writer)
                writer.note(error)
                if writer.poison == nil { loading.removeFiles() }
                throw error
            }
        }
    }
}

extension SQLiteStore {
    /// The greatest primary key that an object of a hierarchy has had.
    package func greatestPrimaryKey(of root: EntityLayout) throws -> Int64 {
        try read { connection in
            let place = schema.entity(root)
            let recorded = try connection.greatestPrimaryKey(of: place.storeNumber)
            // Some stores' books are behind their tables.
            let used = try connection.integer(
                "SELECT max(Z_PK) FROM \(SQLName.quoted(place.tableName))")
            return max(recorded, used ?? 0)
        }
    }
}
