import Foundation
import Quire
import Synchronization

/// A version as a package of its own, to look at. It is beside the document, or in the folder for temporary files if
/// nothing may be written there, and shares the document's large files where that is possible. It goes when it is closed.
///
/// ```swift
/// let checkout = try package.checkOut(version.id)
/// let old = ManagedDocument(path: checkout.path)
/// try await old.open(readOnly: true)
/// …
/// try await old.close()
/// checkout.close()
/// ```
public final class VersionCheckout: Sendable {
    /// The package. Open it for reading only: its files may be those of the document.
    public let path: String
    /// Tells those who clean up that it is in use.
    private let claim: OpenFile
    private let isClosed = Atomic(false)

    init(_ id: String, of store: VersionStore, progress: Progress?) throws {
        (path, claim) = try Self.makeFolder(for: store.layout.path)
        do {
            let layout = DocumentPackageLayout(path: path)
            try FileSystem.makeFolder(layout.storeFolder)
            try store.fill(layout, with: id, by: .linking, progress: progress)
        } catch {
            try? FileSystem.removeTree(path)
            throw error
        }
    }

    private static func makeFolder(for document: String) throws -> (String, OpenFile) {
        FileSystem.removeStaleSiblings(of: document)
        let beside = FileSystem.temporarySibling(of: document, for: "version")
        let path: String
        do {
            try FileSystem.makeFolder(beside)
            path = beside
        } catch let error as QuireError where error.code == .readOnly {
            path = FileSystem.path(
                FileManager.default.temporaryDirectory.path, FileSystem.name(of: beside))
            try FileSystem.makeFolder(path)
        }
        let claim = try OpenFile.open(path, for: .folder)
        _ = try claim.claim()
        return (path, claim)
    }

    deinit { close() }

    /// Removes the package. Closing twice does nothing.
    public func close() {
        guard !isClosed.exchange(true, ordering: .acquiringAndReleasing) else { return }
        try? FileSystem.removeTree(path)
        claim.close()
    }
}
