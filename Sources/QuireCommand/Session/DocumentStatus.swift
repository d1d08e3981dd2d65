/// How an open document stands.
struct DocumentStatus {
    var path: String
    var inserted: Int
    var updated: Int
    var deleted: Int
    var hasUnsavedChanges: Bool
    var canUndo: Bool
    var canRedo: Bool

    var json: JSONValue {
        .object([
            "path": .string(path),
            "hasUnsavedChanges": .boolean(hasUnsavedChanges),
            "inserted": .integer(Int64(inserted)),
            "updated": .integer(Int64(updated)),
            "deleted": .integer(Int64(deleted)),
            "canUndo": .boolean(canUndo),
            "canRedo": .boolean(canRedo),
        ])
    }

    /// The numbers of changed objects; empty if there are none.
    var counts: String {
        [(inserted, "inserted"), (updated, "changed"), (deleted, "deleted")]
            .filter { $0.0 > 0 }.map { "\($0.0) \($0.1)" }.joined(separator: ", ")
    }

    var sentence: String {
        let changes =
            !hasUnsavedChanges
            ? "No unsaved changes" : counts.isEmpty ? "Unsaved changes" : "Unsaved: \(counts)"
        let steps = [(canUndo, "undo"), (canRedo, "redo")].filter(\.0).map(\.1)
        return changes + (steps.isEmpty ? "." : "; can \(steps.joined(separator: " and ")).")
    }
}
