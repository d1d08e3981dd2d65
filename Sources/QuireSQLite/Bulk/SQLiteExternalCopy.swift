import Foundation
internal import QuireModel
internal import QuireSystem

/// Copies an external data file of any size, and returns its size and digest.
enum SQLiteExternalCopy {
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
