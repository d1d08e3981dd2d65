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
    private let sibling: TemporarySibling
    /// What errors call it instead of by its temporary path.
    private let reportedPath: String
    /// The keys of the document, retained so that the package is unlocked while the document is.
    private let protection: StoreProtection?
    private let isClosed = Atomic(false)

    init(_ id: String, of store: VersionStore, progress: Progress?) throws {
        protection = store.protection
        sibling = try Self.makeFolder(for: store.layout.path)
        path = sibling.path
        reportedPath = "\(store.layout.path) (version \(id))"
        do {
            try reporting {
                let layout = DocumentPackageLayout(path: path)
                try FileSystem.makeFolder(layout.storeFolder)
                try store.fill(layout, with: id, by: .linking, progress: progress)
                try sibling.setFinalPermissions(of: FileSystem.information(at: store.layout.path))
            }
        } catch {
            sibling.remove()
            throw error
        }
    }

    private static func makeFolder(for document: String) throws -> TemporarySibling {
        do {
            return try TemporarySibling.makeFolder(beside: document)
        } catch let error as QuireError where error.code == .readOnly {
            return try TemporarySibling.makeFolderInTemporaryDirectory()
        }
    }

    deinit { close() }

    /// Runs what works with the package. Errors name the document and the version.
    package func reporting<Result>(_ body: () throws -> Result) throws -> Result {
        try FileSystem.building(reportedPath, as: path, body)
    }

    /// Removes the package. Closing twice does nothing.
    public func close() {
        guard !isClosed.exchange(true, ordering: .acquiringAndReleasing) else { return }
        sibling.remove()
    }
}
