import Foundation
import Quire
import QuireDocuments

/// A model for data without one, and the way to import the data.
struct InferredImport {
    /// Rows to import, after those before.
    struct Pass {
        var entity: String
        var source: ImportRows.Source
        /// The properties of columns, by entity and column.
        var mappings: [String: [String: String]] = [:]
        /// The columns that are not imported, by entity.
        var ignored: [String: Set<String>] = [:]
        /// The attributes that find the objects that the rows complete; `nil` if each row makes an object.
        var key: String?

        /// Whether objects that rows refer to, and that do not exist, are made: those of foreign keys have rows.
        var makesRelated: Bool { if case .file = source { true } else { false } }
    }

    var model = ManagedObjectModel()
    var passes: [Pass] = []
    /// Sentences about what the model does not have as the data have it.
    var notes: [String] = []

    /// The greatest numbers of entities and of columns of one.
    static let (maximumEntityCount, maximumColumnCount) = (1000, 1900)

    /// The rows of a pass, for a document with the model.
    func rows(of pass: Pass, in layout: ResolvedModel) throws -> ImportRows {
        var rows = ImportRows(
            source: pass.source, entity: try layout.requireEntity(named: pass.entity),
            layout: layout)
        rows.mappings = pass.mappings
        rows.ignored = pass.ignored
        rows.readsNumbersAsTexts = true
        return rows
    }
}
