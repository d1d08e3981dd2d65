extension Workload {
    /// Following relationships in an open document.
    static let relating = [
        relating(
            "W7m", "fetch N with their folders",
            Targets(mustOfPlain: 1.4, aimOfPlain: 1.2, mustOfGRDB: 0.8)
        ) { try $0.readWithFolders($1) },
        relating(
            "W8a", "notes folder by folder", Targets(mustOfPlain: 1.4, aimOfPlain: 1.1)
        ) { try $0.readFolderByFolder($1) },
        relating("W8b", "tags of every note", Targets(mustOfPlain: 2, aimOfPlain: 1.3)) {
            try $0.readTags($1)
        },
    ]

    private static func relating(
        _ id: String, _ title: String, _ targets: Targets,
        _ run: @escaping @Sendable (any Engine, Stopwatch) throws -> Checksum
    ) -> Workload {
        Workload(
            id: id, title: title, targets: targets,
            rounds: { $0 >= 100_000 ? 9 : 21 }
        ) { site, stopwatch in try run(site.openDocument(), stopwatch) }
    }
}
