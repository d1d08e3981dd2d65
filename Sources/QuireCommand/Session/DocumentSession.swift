import Foundation
import Quire
import QuireDocuments

/// An open document, whatever it is: a package, through ``ManagedDocument`` when it is to be changed, or a bare
/// store.
///
/// What only reads opens the store for reading only: it leaves no trace, and works while the document is open
/// elsewhere.
@MainActor
final class DocumentSession {
    /// What is to be done with a document.
    enum Access { case read, write }

    /// What a document is on disk.
    enum Kind: String {
        case package, store, archive

        /// The kind in a sentence.
        var title: String {
            switch self {
            case .package: "document package"
            case .store: "bare store"
            case .archive: "archive"
            }
        }
    }

    /// A file of a document's additional content.
    struct ContentFile: Equatable {
        var path: String
        var bytes: Int64
    }

    /// The path as it was given.
    let path: String
    /// What is there.
    let kind: Kind
    /// The document, when a package is open for changes.
    private(set) var document: ManagedDocument?
    private var bare: (coordinator: PersistentStoreCoordinator, context: ManagedObjectContext)?
    /// A folder to remove when the session ends: an extracted archive.
    private var temporaryFolder: String?

    private init(path: String, kind: Kind) {
        self.path = path
        self.kind = kind
    }
}
