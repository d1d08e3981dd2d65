extension Workload {
    /// Following relationships in an open document.
    static let relating = [
        relating("W7m", "fetch N with their folders") { try $0.readWithFolders($1) },
        relating("W8a", "notes folder by folder") { try $0.readFolderByFolder($1) },
        relating("W8b", "tags of every note") { try $0.readTags($1) },
    ]

    private static func relating(
        _ id: String, _ title: String,
        _ run: @escaping @Sendable (any Engine, Stopwatch) throws -> Checksum
    ) -> Workload {
        Workload(
            id: id, title: title,
            targets: Targets(mustOfPlain: 2, aimOfPlain: 1.3, mustOfGRDB: 1),
            rounds: { $0 >= 100_000 ? 9 : 21 }
        ) { site, stopwatch in try run(site.openDocument(), stopwatch) }
    }
}
