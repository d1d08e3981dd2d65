/// The result of a recovery: recovered and lost objects.
public struct StoreRecoveryReport: Sendable {
    /// The origin of the model.
    public enum ModelOrigin: String, Sendable {
        /// The caller specified the model.
        case given
        /// The model was in the damaged store.
        case carried
        /// The model was inferred from the tables.
        case inferred
    }

    /// The origin of the model.
    public var modelOrigin = ModelOrigin.given
    /// The number of objects of each entity, without those of its sub-entities.
    public var objects: [String: Int] = [:]
    /// Unreadable or missing table pages.
    public var lostPages = 0
    /// Unreadable rows on readable pages.
    public var lostRows = 0
    /// Values lost with overflow pages, or unreadable.
    public var lostValues = 0
    /// Rows that are not in a known table, or have invalid keys.
    public var strayRows = 0
    /// Missing tables, columns and other parts, one sentence each.
    public var missingParts: [String] = []
    /// Objects omitted because they violate a uniqueness constraint with other objects.
    public var duplicates = 0
    /// Files with external data that are missing.
    public var missingFiles = 0
    /// Frames of the write-ahead log after the last complete transaction, which were omitted.
    public var droppedLogFrames = 0
    /// The number of these transactions that were committed, as far as recorded. The rest were left unfinished.
    public var lostTransactions = 0
    /// Whether the schema table was damaged.
    public var lacksSchema = false
    /// Repairs to clear references to lost objects, one sentence each.
    public var actions: [String] = []
    /// Data that were not recovered because they are not objects: the history and the mirroring records; one sentence each.
    public var omissions: [String] = []
    /// Problems remaining in the new store.
    public var problems: [StoreProblem] = []

    /// The number of all objects.
    public var objectCount: Int { objects.values.reduce(0, +) }

    /// Whether everything was recovered that the damaged store can be expected to contain. Cleared references to lost rows,
    /// recomputed values, and a schema table replaced by the model's do not count.
    public var isComplete: Bool {
        lostPages == 0 && lostRows == 0 && lostValues == 0 && strayRows == 0 && duplicates == 0
            && missingFiles == 0 && lostTransactions == 0 && missingParts.isEmpty
    }

    /// Losses and their repairs, one sentence each; empty if nothing was lost.
    public var losses: [String] {
        func sentence(_ count: Int, _ one: String, _ many: String) -> String? {
            count == 0 ? nil : count == 1 ? "1 \(one)" : "\(count) \(many)"
        }
        return [
            lacksSchema ? "The list of tables is damaged; tables were taken from the model." : nil,
            sentence(
                lostPages, "page of a table is lost.", "pages of tables are lost."),
            sentence(lostRows, "row is damaged.", "rows are damaged."),
            sentence(
                strayRows,
                "row is not in a known table, or has an invalid primary key.",
                "rows are not in a known table, or have invalid primary keys."),
            sentence(lostValues, "value is lost.", "values are lost."),
            sentence(
                duplicates, "object was omitted because another object has the same unique values.",
                "objects were omitted because other objects have the same unique values."),
            sentence(
                missingFiles, "external file of a value is missing.",
                "external files of values are missing."),
            sentence(
                droppedLogFrames,
                "page in the log after the last complete transaction was omitted.",
                "pages in the log after the last complete transaction were omitted."),
            sentence(
                lostTransactions, "transaction in the log is damaged.",
                "transactions in the log are damaged."),
        ].compactMap { $0 } + missingParts + actions
    }

    /// An empty report.
    public init() {}
}
