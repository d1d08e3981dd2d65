internal import QuireSystem

/// Where a store is to be made.
package struct NewStorePlace {
    package let path: String
    /// Whether there is anything at the path.
    package let isTaken: Bool
    /// Whether it is a place in memory.
    package var isInMemory = false

    package init(path: String, isTaken: Bool, isInMemory: Bool = false) {
        self.path = path
        self.isTaken = isTaken
        self.isInMemory = isInMemory
    }

    /// Checks that a store can be made there.
    ///
    /// - Throws: ``QuireError`` with code `readOnly`, `alreadyExists`, or `notFound` if there is no folder for it.
    package func check(isReadOnly: Bool) throws {
        if isReadOnly {
            throw QuireError(
                .readOnly, "“\(path)” cannot be made for reading only.", subject: .init(file: path))
        }
        if isTaken {
            throw QuireError(
                .alreadyExists, "There is a “\(path)” already; remove it or choose another name.",
                subject: .init(file: path))
        }
        let folder = FileSystem.folder(of: path)
        guard try isInMemory || FileSystem.information(at: folder)?.kind == .folder else {
            throw QuireError(
                .notFound, "There is no folder “\(folder)” for the store.",
                subject: .init(file: path))
        }
    }
}
