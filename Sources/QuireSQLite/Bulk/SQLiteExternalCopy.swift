package import Foundation
internal import QuireModel
package import QuireProtection
package import QuireStore
internal import QuireSystem

/// Copies an external data file of any size, and returns its size and digest.
enum SQLiteExternalCopy {
    /// Copies to a new file; its content is durable, its name is not.
    static func copy(
        _ file: ExternalFile, to name: String, in externalData: SQLiteExternalData
    ) throws -> ExternalDataRecord {
        try copy(
            ExternalData(
                .file(
                    ExternalDataFile(
                        storedAt: file.path, beneath: file.root, classKey: file.classKey))),
            to: name, in: externalData)
    }

    /// Copies to a new file; its content is durable, its name is not.
    static func copy(
        _ value: ExternalData, to name: String, in externalData: SQLiteExternalData
    ) throws -> ExternalDataRecord {
        let (newPath, root) = (externalData.path(ofFileNamed: name), externalData.root)
        let (target, temporary) = try OpenFile.createTemporary(beside: newPath, beneath: root)
        do {
            let writer = try ContentFileWriter(target, sealing: externalData.place.classKey)
            let digest = RunningDigest()
            try value.forEachBlock { block in
                digest.update(block)
                try writer.write(block)
            }
            if let known = value.file?.knownRecord { try value.check(digest, against: known) }
            try writer.finish()
            try FileSystem.renameWithoutReplacing(temporary, to: newPath, beneath: root)
            target.close()
            return ExternalDataRecord(size: digest.size, sha256: digest.sha256)
        } catch {
            _ = try? FileSystem.removeFileIfPresent(temporary, beneath: root)
            throw error
        }
    }
}

extension ObjectSnapshot {
    /// The file of a slot's value, if it is external.
    package func externalFile(at slot: Int) -> (path: String, root: String, classKey: ClassKey?)? {
        let row = PackedRow(chunk: chunk, offset: offset)
        guard entity.slots[slot].isExternalCapable, row.hasValue(slot),
            let files = chunk.externalData as? SQLiteExternalData,
            let name = SQLiteExternalData.fileName(
                in: row.bytes(slot, slotCount: entity.slots.count))
        else { return nil }
        return (files.path(ofFileNamed: name), files.root, files.place.classKey)
    }
}

extension SQLiteStore {
    /// The recorded digests of external data files, by path.
    package func externalDigests() throws -> [String: Data] {
        try read { connection in
            guard try connection.hasTable(SQLiteTables.externalData) else { return [:] }
            return try connection.withStatement(
                "SELECT Z_UUID, Z_SHA256 FROM \(SQLiteTables.externalData)"
            ) { statement in
                var digests: [String: Data] = [:]
                while try statement.step() {
                    digests[externalData.path(ofFileNamed: statement.text(0))] = statement.data(1)
                }
                return digests
            }
        }
    }
}
