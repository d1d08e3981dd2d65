import Foundation

/// What opening a store finds out by reading the model that it carries and comparing that with its tables.
struct SQLiteOpenedSchema: Sendable {
    /// Where the objects of the model lie.
    var schema: SQLSchema
    /// Whether the store carries its model the way this framework writes it.
    var carriesModel: Bool
    /// Why the model was made of the tables alone; `nil` if it was not.
    var inferenceReason: SQLiteInferenceReason?
    /// The version hashes of the model, by the metadata.
    var hashes: [String: Data]
    /// The configuration whose entities' objects the store keeps; `nil` for all.
    var configuration: String?
    /// Whether the indexes and triggers are known to be those of the model.
    var isSynchronized = false
}
