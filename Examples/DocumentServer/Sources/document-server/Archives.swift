import Dispatch
import Foundation
import Quire
import QuireDocuments

/// Documents as `.zip` archives.
enum Archives {
    /// The archive of a document: rows and files of one save, while others go on reading and writing.
    @MainActor
    static func export(_ document: Checklist) async throws -> Data {
        let file = FileManager.default.temporaryDirectory.appending(path: "\(UUID()).zip")
        try await document.export(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        // Mapped, not read: the file has no name any more when this returns, and is gone when the response was sent.
        return try Data(contentsOf: file, options: .alwaysMapped)
    }

    /// Creates the document of an archive at a URL, and opens it.
    ///
    /// Nothing in the archive is trusted. It is extracted beside the other documents under a hidden name, and gets its own name
    /// when its content was checked and the document was opened with the server's model.
    @MainActor
    static func makeDocument(from archive: Data, at url: URL) async throws -> Checklist {
        let hidden = url.deletingLastPathComponent().appending(path: ".\(UUID()).checklist")
        let document = Checklist(fileURL: hidden)
        do {
            try await extract(archive, to: hidden)
            try await document.open()
            try await document.move(to: url)
            return document
        } catch {
            try? await document.close(discardingChanges: true)
            try? FileManager.default.removeItem(at: hidden)
            switch (error as? QuireError)?.code {
            case .invalidFormat, .incompatibleModel, .unsupported, .protectedDataUnavailable:
                throw QuireError(.invalidArchive, "The body is not the archive of a checklist.")
            default: throw error
            }
        }
    }

    /// Extracts an archive, on a thread that may block: those that tasks share may not.
    private static func extract(_ archive: Data, to url: URL) async throws {
        let file = FileManager.default.temporaryDirectory.appending(path: "\(UUID()).zip")
        try await withCheckedThrowingContinuation { continuation in
            DispatchQueue.global().async {
                defer { try? FileManager.default.removeItem(at: file) }
                continuation.resume(
                    with: Result {
                        try archive.write(to: file)
                        var limits = ArchiveLimits()
                        (limits.bytes, limits.entries) = (1 << 30, 10_000)
                        try DocumentPackage.extract(file, to: url, limits: limits)
                    })
            }
        }
    }
}
