import Foundation
internal import QuireModel
internal import QuireSystem

extension ModelVersions {
    /// Compiles every version into a new `.momd` folder, as Xcode does.
    ///
    /// - Parameter path: The folder, which must not exist; the one it is in must.
    /// - Returns: A sentence for each thing that was left out; see ``ManagedObjectModel/compiledModel()``.
    /// - Throws: ``QuireError`` with code `invalidModel` or as ``ManagedObjectModel/init(contentsOf:)`` for the first
    ///   version that cannot be compiled; `alreadyExists`; `inputOutput` and others if it cannot be written. Then
    ///   nothing is left.
    public func compile(to path: String) throws -> [String] {
        if FileSystem.exists(path) {
            throw QuireError(
                .alreadyExists, "There is a “\(path)” already; remove it or choose another name.",
                subject: .init(file: path))
        }
        var remarks: [String] = []
        var files: [(name: String, data: Data)] = []
        var list = CompiledVersionList(currentName: currentName, hashes: [:])
        for name in names {
            let reading = try reading(named: name)
            let (data, omissions) = try reading.model.compiledModel()
            remarks += (reading.remarks + omissions).map { "\(name): \($0)" }
            files.append((name + ModelFile.compiledExtension, data))
            list.hashes[name] = reading.model.knownVersionHashes
        }
        files.append((CompiledVersionList.fileName, list.data))
        let sibling = try TemporarySibling.makeFolder(beside: path)
        defer { sibling.remove() }
        try sibling.building {
            for file in files {
                try FileSystem.writeNewFile(
                    file.data, at: FileSystem.path(sibling.path, file.name))
            }
            try FileSystem.synchronizeFolder(sibling.path)
            try sibling.setFinalPermissions(of: nil)
            try sibling.publish()
        }
        return remarks
    }
}
