/// A problem that a check found in a store.
public struct StoreProblem: Sendable, Hashable {
    /// The kind of a problem.
    public enum Kind: String, Sendable, CaseIterable {
        /// Damage to the file itself.
        case integrity
        /// Tables, columns, indexes or triggers do not match the model.
        case schema
        /// Counting and listing objects yield different numbers.
        case count
        /// A value cannot be read.
        case value
        /// A value or a relationship violates a rule of the model.
        case validation
        /// A relationship refers to a missing object, or to one of the wrong entity.
        case reference
        /// A relationship and its inverse contradict each other.
        case inverse
        /// Members of an ordered relationship have no order value, or share one.
        case order
        /// `Z_MAX` in `Z_PRIMARYKEY` is lower than the greatest key in the table, or a row has an invalid key.
        case primaryKey
        /// An entity number that is invalid, or differs from the object's.
        case entity
        /// An invalid object version.
        case version
        /// Objects violate a uniqueness constraint.
        case uniqueness
        /// An external file is missing, differs from the saved value, or is orphaned.
        case externalData
        /// Inconsistent metadata.
        case metadata
        /// The model in the store cannot be read, or differs from the model that the store is opened with.
        case model
        /// A derived attribute is stale.
        case derived
        /// The store's package is incomplete.
        case package
    }

    /// The kind of the problem.
    public var kind: Kind
    /// The object's URI, if the problem concerns one.
    public var object: String?
    /// The table, if the problem concerns one.
    public var table: String?
    /// One sentence that describes the problem.
    public var message: String
    /// Whether ``StoreRepair`` can fix it without guessing.
    public var isRepairable: Bool

    /// Creates a problem.
    public init(
        kind: Kind, object: String?, table: String?, message: String, isRepairable: Bool
    ) {
        self.kind = kind
        self.object = object
        self.table = table
        self.message = message
        self.isRepairable = isRepairable
    }
}

/// The result of a check.
public struct StoreCheckReport: Sendable {
    /// The number of objects.
    public var objects = 0
    /// The number of values that attributes have.
    public var values = 0
    /// The number of references: each side of a relationship counts.
    public var references = 0
    /// The number of files with external data that objects refer to.
    public var externalFiles = 0
    /// The problems found.
    public var problems: [StoreProblem] = []
    /// Unusual but harmless findings: the next save, or opening the store for writing, may correct them, or Core Data leaves them
    /// too.
    public var notes: [StoreProblem] = []
    /// The number of problems beyond those listed.
    public var unlistedProblems = 0

    /// Whether the check found no problems.
    public var isWhole: Bool { problems.isEmpty }

    /// An empty report.
    public init() {}
}
