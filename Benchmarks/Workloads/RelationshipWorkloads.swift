extension Workload {
    /// Following relationships in an open document.
    static let relating = [
        relating(
            "W7m", "fetch N with their folders", must: [.plain(1.4), .grdb(0.8)], aim: 1.2
        ) { try $0.readWithFolders($1) },
        relating(
            "W8a", "notes folder by folder", must: [.plain(1.4)], aim: 1.1
        ) { try $0.readFolderByFolder($1) },
        relating("W8b", "tags of every note", must: [.plain(2)], aim: 1.3) {
            try $0.readTags($1)
        },
    ]

    private static func relating(
        _ id: String, _ title: String, must: [Comparison.Bound], aim: Double,
        _ run: @escaping @Sendable (any Engine, Stopwatch) throws -> Checksum
    ) -> Workload {
        Workload(
            id: id, title: title, must: must, aim: [.plain(aim)],
            rounds: { $0 >= 100_000 ? 9 : 21 }
        ) { site, stopwatch in try run(site.openDocument(), stopwatch) }
    }
}
