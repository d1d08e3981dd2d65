internal import Crypto
import Foundation

/// Copies a file with external data, however large, and says what its bytes were.
enum SQLiteExternalCopy {
    private static let blockSize = 1 << 20

    /// Makes a new file durable, but not its name.
    static func copy(_ path: String, to newPath: String) throws -> (size: Int, digest: Data) {
        let temporary = FileSystem.temporarySibling(of: newPath, for: "new")
        do {
            let source = try OpenFile.open(path, for: .reading)
            defer { source.close() }
            let target = try OpenFile.open(temporary, for: .creating, reportedAs: newPath)
            var hash = SHA256()
            var size = 0
            let block = UnsafeMutableRawBufferPointer.allocate(
                byteCount: blockSize, alignment: 16)
            defer { block.deallocate() }
            while true {
                let count = try source.read(into: block)
                if count == 0 { break }
                let bytes = UnsafeRawBufferPointer(rebasing: block[..<count])
                hash.update(bufferPointer: bytes)
                try target.write(bytes)
                size += count
            }
            try target.synchronize()
            target.close()
            try FileSystem.renameWithoutReplacing(temporary, to: newPath)
            return (size, Data(hash.finalize()))
        } catch {
            _ = try? FileSystem.removeFileIfPresent(temporary)
            throw error
        }
    }
}

extension ObjectSnapshot {
    /// The file that holds the value of a slot, if one does.
    func externalFile(at slot: Int) -> String? {
        let row = PackedRow(chunk: chunk, offset: offset)
        guard entity.slots[slot].isExternalCapable, row.hasValue(slot),
            let files = chunk.externalData as? SQLiteExternalData,
            let name = SQLiteExternalData.fileName(
                in: row.bytes(slot, slotCount: entity.slots.count))
        else { return nil }
        return files.path(ofFileNamed: name)
    }
}

extension SQLiteStore {
    /// The recorded digests of files with external data, by their paths.
    func externalDigests() throws -> [String: Data] {
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
