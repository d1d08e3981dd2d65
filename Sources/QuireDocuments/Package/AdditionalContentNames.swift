import Quire

/// The paths of a package's additional content, to find collisions without looking at all of them.
struct AdditionalContentNames {
    /// Files by their folded path.
    private var files: [String: String] = [:]
    /// Folders by their folded path, with how many files are below them.
    private var folders: [String: (path: String, count: Int)] = [:]

    init(_ paths: some Sequence<String>) {
        for path in paths { insert(path) }
    }

    /// All paths, sorted by their bytes.
    var sorted: [String] {
        files.values.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
    }

    func contains(_ path: String) -> Bool { files[PortableNames.folded(path)] == path }

    /// What stands in the way of a new path, to continue “… cannot be used: it …”.
    func problem(with path: String) -> String? {
        if let problem = PortableNames.problem(with: path) { return problem }
        let folded = PortableNames.folded(path)
        if let file = files[folded], file != path {
            return "differs from “\(file)” only in case"
        }
        if let folder = folders[folded] { return "is the folder “\(folder.path)” already" }
        for parent in Self.parents(of: path) {
            let folded = PortableNames.folded(parent)
            if let file = files[folded] { return "is below the file “\(file)”" }
            if let folder = folders[folded], folder.path != parent {
                return "differs from “\(folder.path)” only in case"
            }
        }
        return nil
    }

    mutating func insert(_ path: String) {
        guard files.updateValue(path, forKey: PortableNames.folded(path)) == nil else { return }
        for parent in Self.parents(of: path) {
            folders[PortableNames.folded(parent), default: (parent, 0)].count += 1
        }
    }

    mutating func remove(_ path: String) {
        guard files.removeValue(forKey: PortableNames.folded(path)) != nil else { return }
        for parent in Self.parents(of: path) {
            let folded = PortableNames.folded(parent)
            folders[folded]?.count -= 1
            if folders[folded]?.count == 0 { folders[folded] = nil }
        }
    }

    private static func parents(of path: String) -> [String] {
        let parts = path.split(separator: "/")
        return (1..<max(parts.count, 1)).map { parts.prefix($0).joined(separator: "/") }
    }
}
