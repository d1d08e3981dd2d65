public import QuireQuery

extension SQLiteStore {
    /// The version of the database as a reading connection sees it. SQLite counts for each connection what others commit,
    /// and reading connections commit nothing themselves. `nil` once another file is at the store's path: what is committed
    /// there the connections do not see.
    public var contentVersion: ContentVersion? {
        guard readsApart, fileChange == nil else { return nil }
        let version = try? read { connection in
            try connection.integer("PRAGMA data_version").map {
                ContentVersion(counter: connection.number, number: $0)
            }
        }
        return version ?? nil
    }
}
