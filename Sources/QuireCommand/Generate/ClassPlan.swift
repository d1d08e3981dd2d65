import Quire

/// The classes to generate for a model, with every name resolved.
///
/// A model file may say things that no class can: two properties of one name, an inverse that is not there.
/// Nothing of that stops the generation: what cannot be said is left out, the code has a comment where it would
/// be, and ``warnings`` has a sentence.
struct ClassPlan {
    /// A class, for the objects of one entity.
    struct Class {
        var entity: EntityDescription
        /// The class's name.
        var name: String
        /// The class of the superentity.
        var superclass: String?
        var hasSubclasses = false
        var members: [Member] = []
        /// Names in the class of properties whose values together no two objects may share.
        var unique: [[String]] = []
        /// Names in the class of properties that are indexed together.
        var indexes: [[String]] = []
        /// The remarks for readers of the class, a sentence each.
        var notes: [String] = []
        /// The differences from the model, a sentence each.
        var warnings: [String] = []
        /// The properties of the entity that `@Entity` cannot express, a sentence each.
        var undeclared: [String] = []
    }

    /// A property of an entity, as the class has it.
    enum Member {
        case attribute(Attribute)
        case relationship(Relationship)
        case fetched(Fetched)
        case skipped(name: String, reason: String)
    }

    /// An attribute.
    struct Attribute {
        var description: AttributeDescription
        /// The name as a declaration has it.
        var name: String
        /// Whether no two objects may have the same value.
        var isUnique: Bool
        var isIndexed: Bool
        /// The name of the structure that a composite is with macros; `nil` if there is none.
        var structure: String?
        /// The reason why a class reads the value by its key, if `@Attribute` cannot express it.
        var undeclared: String?
        var notes: [String]
    }

    /// A relationship.
    struct Relationship {
        var description: RelationshipDescription
        /// The name as a declaration has it.
        var name: String
        /// The class of its destination.
        var destination: String
        /// The name of the inverse's declaration in that class.
        var inverse: String?
        /// Whether this side names the inverse by a key path. Only one of both can: the compiler could not resolve
        /// two that refer to each other.
        var namesInverseByKeyPath: Bool
        var notes: [String]
    }

    /// A fetched property.
    struct Fetched {
        var description: FetchedPropertyDescription
        /// The name as a declaration has it.
        var name: String
        /// The class of the objects it finds.
        var destination: String
        /// The reason why a class reads it by its key, if `@FetchedProperty` cannot express it.
        var undeclared: String?
        var notes: [String]
    }

    /// A composite that `@Composite` can express.
    struct Structure {
        var description: CompositeDescription
        /// The structure's name.
        var name: String
        /// The elements, and the structures of those that are composites themselves.
        var elements: [(description: AttributeDescription, structure: String?)]
    }

    /// The model's name: that of the file without extension.
    let modelName: String
    let model: ManagedObjectModel
    /// In the order of the model.
    private(set) var classes: [Class]
    /// The model's composites, as far as they can be structures.
    let structures: [Structure]
    /// Whether these are the classes of all entities.
    private(set) var isComplete = true
    private var modelWarnings: [String]

    /// The differences from the model, a sentence each.
    var warnings: [String] { modelWarnings + classes.flatMap(\.warnings) }

    /// Plans the classes of all entities.
    init(_ model: ManagedObjectModel, modelName: String) {
        self.model = model
        self.modelName = modelName
        var planner = ClassPlanner(model)
        classes = planner.classes()
        structures = planner.structures
        modelWarnings = planner.modelWarnings
    }

    /// The differences from the model of classes with macros, a sentence each.
    var warningsOfMacros: [String] {
        classes.flatMap { one in
            one.undeclared.map { "\(one.entity.name): \($0)" }
                + one.members.compactMap { member in
                    switch member {
                    case .attribute(let attribute):
                        attribute.undeclared.map { (attribute.description.name, $0) }
                    case .fetched(let fetched):
                        fetched.undeclared.map { (fetched.description.name, $0) }
                    case .relationship, .skipped: nil
                    }
                }.map { "\(one.entity.name).\($0) is read by key: \($1)." }
        }
    }

    /// Keeps only the classes of some entities, and the remarks about these.
    ///
    /// - Throws: `QuireError` with code `unknownEntity`.
    mutating func keep(entities names: [String]) throws {
        for name in names where !classes.contains(where: { $0.entity.name == name }) {
            let known = classes.map(\.entity.name).sorted().joined(separator: ", ")
            throw QuireError(
                .unknownEntity, "The model has no entity “\(name)”; its entities are: \(known).",
                entity: name)
        }
        classes.removeAll { !names.contains($0.entity.name) }
        modelWarnings = []
        isComplete = false
    }
}
