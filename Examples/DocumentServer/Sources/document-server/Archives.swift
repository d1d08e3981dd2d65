import Dispatch
import FlyingFox
import Foundation
import Quire
import QuireDocuments

/// Documents as `.zip` archives, to download and to create documents from.
struct Archives: Sendable {
    /// The greatest archive that clients may send, in bytes.
    static let maximumSize = 64 << 20

    /// What an archive may contain: it can be a thousand times larger than itself.
    private static let limits = {
        var limits = ArchiveLimits()
        limits.entries = 10_000
        (limits.bytes, limits.bytesPerEntry) = (1 << 30, 1 << 30)
        return limits
    }()

    /// Where archives are while they are sent or received.
    private let folder = FileManager.default.temporaryDirectory

    /// The archive of a document as it was when the request came: rows and files are of one save, and others may go on saving.
    @MainActor
    func export(_ document: Checklist) async throws -> Data {
        let file = folder.appending(path: "\(UUID()).zip")
        try await document.export(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        // It is mapped, not read: the file is gone when this returns, and its content when the response has been sent.
        return try Data(contentsOf: file, options: .alwaysMapped)
    }

    /// Receives an archive into a file, which the caller removes.
    func receive(_ request: HTTPRequest) async throws -> URL {
        let url = folder.appending(path: "\(UUID()).zip")
        do {
            try Data().write(to: url, options: .withoutOverwriting)
            let file = try FileHandle(forWritingTo: url)
            defer { try? file.close() }
            try await request.receive(limit: Self.maximumSize) { try file.write(contentsOf: $0) }
            return url
        } catch {
            try? FileManager.default.removeItem(at: url)
            throw error
        }
    }

    /// Creates the document of an archive at a path, where nothing may be, and opens it.
    ///
    /// Nothing in the archive is trusted. It is extracted beside the documents, under a name that hides it; it gets its own name
    /// when it was checked and has been opened with the server's model.
    @MainActor
    func makeDocument(from archive: URL, at path: String) async throws -> Checklist {
        let url = URL(fileURLWithPath: path)
        let hidden = url.deletingLastPathComponent().appending(path: ".\(UUID()).checklist")
        let document = Checklist(fileURL: hidden)
        do {
            _ = try await Self.offMainActor {
                try DocumentPackage.extract(archive, to: hidden, limits: Self.limits)
            }
            try await document.open()
            try await document.move(to: url)
            return document
        } catch {
            try? await document.close(discardingChanges: true)
            try? FileManager.default.removeItem(at: hidden)
            guard let error = error as? QuireError, Self.rejections.contains(error.code) else {
                throw error
            }
            throw RequestError(
                status: .unprocessableContent, code: error.code.rawValue,
                message: error.message.replacing(archive.path, with: "the archive"))
        }
    }

    /// The errors of an archive that is not one of a checklist.
    private static let rejections: [QuireError.Code] = [
        .invalidFormat, .incompatibleModel, .unsupported,
    ]

    /// Runs what blocks its thread elsewhere than on the threads that Swift's tasks share.
    private static func offMainActor<Result: Sendable>(
        _ body: @escaping @Sendable () throws -> Result
    ) async throws -> Result {
        try await withCheckedThrowingContinuation { continuation in
            DispatchQueue.global().async {
                continuation.resume(with: Swift.Result(catching: body))
            }
        }
    }
}
