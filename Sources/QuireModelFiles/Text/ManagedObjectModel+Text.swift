public import Foundation
public import QuireModel
internal import QuireSystem

extension ManagedObjectModel {
    /// Reads a model from its text form.
    ///
    /// ```swift
    /// let model = try ManagedObjectModel(
    ///     modelText: Data("""
    ///         entity Author
    ///           name: string, required
    ///           books: ->> Book.author, delete cascade
    ///
    ///         entity Book
    ///           title: string, required
    ///           year: integer32, min 1450
    ///           author: -> Author.books
    ///           unique title
    ///         """.utf8), name: "Library.quiremodel")
    /// ```
    ///
    /// The page “Models as text” of the module describes the language. The extension of its files is `.quiremodel`;
    /// ``init(contentsOf:)-(String)`` reads them. The model is not validated; ``validate()`` does that.
    ///
    /// - Parameters:
    ///   - text: The text, in UTF-8.
    ///   - name: The source's name in errors.
    /// - Throws: ``QuireError`` with code `invalidModel`, naming line and column, with the nearest known word.
    public init(modelText text: Data, name: String) throws {
        guard let text = String(validating: text, as: UTF8.self) else {
            throw QuireError(.invalidModel, "“\(name)” is not text in UTF-8.", file: name)
        }
        var parser = try ModelTextParser(text, name: name)
        self = try parser.model()
    }

    /// The model in its text form, which ``init(modelText:name:)`` reads.
    ///
    /// Reading it gives an equal model, without ``knownVersionHashes``.
    public func modelText() -> String { ModelTextWriter.text(of: self, entityName: nil) }

    /// The text form of one entity and its fetch requests.
    package func modelText(ofEntity name: String) -> String {
        ModelTextWriter.text(of: self, entityName: name)
    }
}
