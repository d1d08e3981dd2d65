extension SQLiteStore {
    /// The version of the database as a reading connection sees it. SQLite counts for each connection what others commit,
    /// and reading connections commit nothing themselves.
    public var contentVersion: ContentVersion? {
        guard readsApart else { return nil }
        let version = try? read { connection in
            try connection.integer("PRAGMA data_version").map {
                ContentVersion(counter: connection.number, number: $0)
            }
        }
        return version ?? nil
    }
}
