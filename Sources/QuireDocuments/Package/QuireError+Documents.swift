package import Quire

/// The errors that several parts throw about documents.
extension QuireError {
    /// A document has no file at a path of its additional content.
    package static func noContent(_ path: String, in document: String) -> QuireError {
        QuireError(
            .notFound, "“\(document)” has no additional content “\(path)”.",
            subject: .init(file: path))
    }
}
