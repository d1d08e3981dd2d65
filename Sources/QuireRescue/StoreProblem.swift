/// Something about a store that is not as it should be.
public struct StoreProblem: Sendable, Hashable {
    /// What sort of thing.
    public enum Kind: String, Sendable, CaseIterable {
        /// The file itself is damaged.
        case integrity
        /// Tables, columns, indexes or triggers are not those of the model.
        case schema
        /// Counting objects and listing them give different numbers.
        case count
        /// A value cannot be read.
        case value
        /// A value or a relationship breaks a rule of the model.
        case validation
        /// A relationship leads to an object that is not there, or to one of the wrong entity.
        case reference
        /// A relationship and its inverse contradict each other.
        case inverse
        /// The objects of an ordered relationship have no place in it, or share one.
        case order
        /// The greatest key in `Z_PRIMARYKEY` is lower than one in the table, or a row has a key that no object can have.
        case primaryKey
        /// An entity number is none, or not that of the object it belongs to.
        case entity
        /// The version of an object is none.
        case version
        /// Objects have the same values where the model wants them to be unique.
        case uniqueness
        /// A file with a value is missing, is not what was saved, or belongs to nobody.
        case externalData
        /// What the store says of itself contradicts itself.
        case metadata
        /// The model that the store carries cannot be read, or is not the one that it is opened with.
        case model
        /// A derived attribute is not what it is derived from.
        case derived
        /// The package around the store is not whole.
        case package
    }

    /// What sort of thing.
    public var kind: Kind
    /// The object's URI, if it is about one.
    public var object: String?
    /// The table, if it is about one.
    public var table: String?
    /// A sentence.
    public var message: String
    /// Whether ``StoreRepair`` can mend it without guessing.
    public var isRepairable: Bool

    /// Describes a problem.
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

/// What a check has found.
public struct StoreCheckReport: Sendable {
    /// The number of objects.
    public var objects = 0
    /// The number of values that attributes have.
    public var values = 0
    /// The number of references: each side of a relationship counts.
    public var references = 0
    /// The number of files with external data that objects refer to.
    public var externalFiles = 0
    /// What is wrong.
    public var problems: [StoreProblem] = []
    /// What is unusual but does no harm: the next save, or opening the store for writing, may put it right, or Core Data
    /// leaves it so as well.
    public var notes: [StoreProblem] = []
    /// How many problems there are beyond those that are listed.
    public var unlistedProblems = 0

    /// Whether nothing is wrong.
    public var isWhole: Bool { problems.isEmpty }

    /// An empty report.
    public init() {}
}
