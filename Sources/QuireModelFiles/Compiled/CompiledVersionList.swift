import Foundation
internal import QuireModel
internal import QuireSystem

/// The list of versions in a `.momd` folder.
struct CompiledVersionList: Sendable, Hashable {
    static let fileName = "VersionInfo.plist"

    /// The name of the version that new stores are made with.
    var currentName: String?
    /// The hashes of the entities of each version.
    var hashes: [String: [String: Data]] = [:]

    private enum Key {
        static let current = "NSManagedObjectModel_CurrentVersionName"
        static let hashes = "NSManagedObjectModel_VersionHashes"
        static let checksums = "NSManagedObjectModel_VersionChecksums"
    }

    init(currentName: String?, hashes: [String: [String: Data]]) {
        self.currentName = currentName
        self.hashes = hashes
    }

    /// Reads the list in a folder; it is empty if there is none.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat` if it is damaged.
    init(inFolder path: String) throws {
        let file = FileSystem.path(path, Self.fileName)
        guard let size = try FileSystem.information(at: file)?.size else {
            self.init(currentName: nil, hashes: [:])
            return
        }
        guard size <= ModelXMLReader.greatestSize else {
            throw BinaryPropertyListReader.damaged(file, "it is far too large")
        }
        try self.init(FileSystem.contents(of: file), name: file)
    }

    /// Reads a list.
    init(_ data: Data, name: String) throws {
        self.init(currentName: nil, hashes: [:])
        guard let list = try PropertyListValue(propertyList: data, name: name).dictionary else {
            throw BinaryPropertyListReader.damaged(name, "it is no list of versions")
        }
        currentName = list[Key.current]?.string
        for (version, entities) in list[Key.hashes]?.dictionary ?? [:] {
            for (entity, hash) in entities.dictionary ?? [:] {
                if let hash = hash.data { hashes[version, default: [:]][entity] = hash }
            }
        }
    }

    /// The content of the file.
    var data: Data {
        var entries: [ArchiveValue.Entry] = [
            .init(
                Key.hashes,
                .dictionary(
                    hashes.sorted { $0.key < $1.key }.map { version in
                        .init(
                            version.key,
                            .dictionary(
                                version.value.sorted { $0.key < $1.key }.map {
                                    .init($0.key, .data($0.value))
                                }))
                    })),
            .init(
                Key.checksums,
                .dictionary(
                    hashes.sorted { $0.key < $1.key }.map {
                        .init($0.key, .string(ManagedObjectModel.versionChecksum(of: $0.value)))
                    })),
        ]
        if let currentName { entries.append(.init(Key.current, .string(currentName))) }
        return BinaryPropertyListWriter.data(of: .dictionary(entries))
    }
}
