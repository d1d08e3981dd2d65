import Foundation
import Logging
import Quire

private let logger = Logger(label: "quire.document")

extension ManagedDocument {
    /// How often a document that stays open writes what a library shows of it.
    private static let libraryMetadataInterval: TimeInterval = 60

    /// The document has been saved: writes what a library shows of it, unless that was done a moment ago. It is done again
    /// when the document is closed.
    func didSaveForLibrary() {
        needsLibraryMetadata = true
        guard
            libraryMetadataDate.map({ -$0.timeIntervalSinceNow > Self.libraryMetadataInterval })
                ?? false
        else {
            if libraryMetadataDate == nil { libraryMetadataDate = Date() }
            return
        }
        Task { [weak self] in
            try? await self?.withOpenDocument { open in await self?.writeLibraryMetadata(of: open) }
        }
    }

    /// Writes what a library shows of the document, if it was saved since. Failures are harmless and only logged.
    func writeLibraryMetadata(of open: OpenDocument) async {
        guard needsLibraryMetadata, !open.package.isReadOnly else { return }
        needsLibraryMetadata = false
        libraryMetadataDate = Date()
        let given = libraryMetadata()
        let modified = fileModificationDate
        let package = open.package
        do {
            try await FileQueue.shared.run {
                guard package.isInPlace else { return }
                try package.writeLibraryMetadata(given, modified: modified)
            }
        } catch {
            logger.warning("What a library shows of “\(path)” was not written: \(error)")
        }
    }
}

extension DocumentPackage {
    /// Writes what a library shows of the package: what is given, with what the store and earlier metadata know. Of one
    /// that is protected only the dates, because it is written in clear.
    func writeLibraryMetadata(_ given: LibraryMetadata, modified: Date?) throws {
        var metadata = store.protection == nil ? given : LibraryMetadata()
        let old = LibraryMetadata(readingFrom: layout)
        metadata.created = given.created ?? old.created ?? modified ?? Date()
        metadata.modified = given.modified ?? modified ?? Date()
        if metadata.objectCounts.isEmpty, store.protection == nil {
            metadata.objectCounts = try objectCounts()
        }
        try metadata.write(to: layout)
    }

    /// By the entity's name: how many objects of exactly that entity are saved. Entities without any are left out.
    private func objectCounts() throws -> [String: Int] {
        var counts: [String: Int] = [:]
        for entity in store.layout.entities where !entity.isAbstract {
            var request = FetchRequest(entity.name)
            request.includesSubentities = false
            let count = try store.count(matching: request)
            if count > 0 { counts[entity.name] = count }
        }
        return counts
    }
}
