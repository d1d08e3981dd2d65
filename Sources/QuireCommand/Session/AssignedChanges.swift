import Foundation
import Quire

/// The changes that assignments make to objects: resolved against a model and a document, first all of them, and then applied.
///
/// Objects are related by identifier, `author=Author/p1`, or by values, `author.name="Jane Austen"`. Exactly one object must
/// have the values; a missing one can be inserted.
@MainActor
final class AssignedChanges {
    private let assignments: [Assignment]
    private let document: DocumentSession
    /// The context of the objects to change.
    private let context: ManagedObjectContext
    /// Whether objects that do not exist yet are inserted.
    private let insertsRelated: Bool
    /// The related objects that were inserted.
    private(set) var inserted: [ManagedObject] = []
    /// The values of objects to insert.
    private var missing: [RelatedValues] = []

    /// Values that identify a related object.
    private struct RelatedValues {
        let relationship: ResolvedEntity.Relationship
        var values: [(key: String, value: AttributeValue)]
    }

    init(
        _ assignments: [Assignment], of document: DocumentSession,
        in context: ManagedObjectContext, insertsRelated: Bool = false
    ) {
        self.assignments = assignments
        self.document = document
        self.context = context
        self.insertsRelated = insertsRelated
    }

    /// Changes objects.
    ///
    /// - Throws: `QuireError` with code `unknownKey`, `invalidValue`, `invalidQuery` or `notFound`; then nothing is changed.
    func apply(to objects: [ManagedObject]) throws {
        var changes = try self.changes(of: objects)
        if !missing.isEmpty {
            try insertMissing()
            changes = try self.changes(of: objects)
        }
        for (object, changes) in zip(objects, changes) {
            for change in changes { try change.apply(to: object) }
        }
    }

    /// Inserts an object.
    ///
    /// - Throws: As ``apply(to:)``.
    func insertObject(of entity: ResolvedEntity) throws -> ManagedObject {
        var changes = try self.changes(of: entity, computed: false)
        if !missing.isEmpty {
            try insertMissing()
            changes = try self.changes(of: entity, computed: false)
        }
        let object = try context.insertObject(entityName: entity.name)
        for change in changes { try change.apply(to: object) }
        return object
    }

    // MARK: - Resolving

    /// The changes of each object, which may be of several entities, with the values that are computed for it.
    private func changes(of objects: [ManagedObject]) throws -> [[PropertyChange]] {
        var known: [Int: [PropertyChange]] = [:]
        return try objects.map { object in
            let entity = object.resolvedEntity
            let changes = try known[entity.number] ?? changes(of: entity)
            known[entity.number] = changes
            return try changes.map { try $0.computed(for: object) }
        }
    }

    /// The changes of objects of an entity.
    ///
    /// - Parameter computed: Whether values may be expressions.
    func changes(of entity: ResolvedEntity, computed: Bool = true) throws -> [PropertyChange] {
        var changes: [PropertyChange] = []
        /// By the action and the relationship.
        var related: [String: (change: Assignment.Action, values: [RelatedValues])] = [:]
        var order: [String] = []
        for assignment in assignments {
            guard entity.properties[assignment.key] == nil, assignment.key.contains("."),
                case .related(let relationship, let key, let attribute) = try ImportColumn(
                    assignment.key, in: entity, of: document.layout)
            else {
                changes.append(try change(by: assignment, of: entity, computed: computed))
                continue
            }
            let destination = document.layout.destination(of: relationship)
            let value = try attribute.coerce(
                assignment.value(of: attribute, in: destination), entity: destination.name)
            if value.isNull {
                throw QuireError(
                    .invalidValue,
                    "“\(assignment.key)” requires a value; use \(relationship.name)= to remove the reference.",
                    entity: entity.name, property: relationship.name)
            }
            let label = assignment.action.rawValue + relationship.name
            if related[label] == nil {
                related[label] = (assignment.action, [])
                order.append(label)
            }
            if !relationship.isToMany, var values = related[label]?.values.first {
                values.values.append((key, value))
                related[label]?.values = [values]
            } else {
                related[label]?.values.append(
                    RelatedValues(relationship: relationship, values: [(key, value)]))
            }
        }
        for label in order {
            guard let (action, values) = related[label],
                let relationship = values.first?.relationship
            else { continue }
            changes.append(
                try PropertyChange(
                    action, relationship,
                    values.compactMap { try object(with: $0, inserting: action != .remove) },
                    of: entity))
        }
        try checkOnce(changes)
        return changes
    }

    private func change(
        by assignment: Assignment, of entity: ResolvedEntity, computed: Bool
    ) throws -> PropertyChange {
        let key = assignment.key
        switch try entity.requireProperty(key) {
        case .attribute(let index):
            let slot = entity.slots[index]
            guard let attribute = slot.attribute else {
                // A slot without an attribute is a relationship's, and those are not looked up as attributes.
                preconditionFailure("Slot \(slot.name) is not an attribute.")
            }
            if assignment.action != .set { throw PropertyChange.notToMany(key, of: entity) }
            if computed, let expression = try assignment.expression(for: attribute, of: entity) {
                return .computed(slot, expression)
            }
            return .attribute(key: key, try assignment.value(of: attribute, in: entity))
        case .relationship(let index):
            let relationship = entity.relationships[index]
            return try PropertyChange(
                assignment.action, relationship,
                document.objects(
                    named: assignment.identifiers(), for: relationship, in: context),
                of: entity)
        case .composite:
            throw QuireError(
                .invalidValue,
                "\(entity.name).\(key) is composite; set its elements one by one, such as "
                    + "\(entity.elementNames(of: key).first ?? "\(key).x").",
                entity: entity.name, property: key)
        case .fetched:
            throw QuireError(
                .invalidValue,
                "\(entity.name).\(key) is a fetched property, which cannot be set.",
                entity: entity.name, property: key)
        }
    }

    /// Throws if a relationship gets all its objects, and more than that.
    private func checkOnce(_ changes: [PropertyChange]) throws {
        for change in changes {
            guard let relationship = change.relationship, change.action == .set else { continue }
            if changes.count(where: { $0.relationship?.index == relationship.index }) > 1 {
                throw Failure.usage(
                    "“\(relationship.name)” is assigned twice; identify its objects either by identifier or by value."
                )
            }
        }
    }

    // MARK: - Related objects

    /// The object with the given values, or `nil` if it is going to be inserted.
    private func object(with related: RelatedValues, inserting: Bool) throws -> ManagedObject? {
        let destination = document.layout.destination(of: related.relationship)
        let found = try document.objects(of: destination, with: related.values, in: context)
        let shown = related.values.map {
            "the \($0.key) “\(PrintedValue.attribute($0.value, .undefined).text)”"
        }.joined(separator: " and ")
        if found.count > 1 {
            throw QuireError(
                .invalidValue,
                "Several \(destination.name) objects have \(shown); specify the identifier of one.",
                entity: destination.name, property: related.values[0].key)
        }
        if let object = found.first { return object }
        guard inserting, insertsRelated else {
            throw QuireError(
                .notFound,
                "No \(destination.name) has \(shown)\(inserting ? "; add --make to insert it." : ".")",
                entity: destination.name, property: related.values[0].key)
        }
        _ = try document.layout.requireConcreteEntity(named: destination.name)
        try ImportRow.validate(
            Dictionary(related.values, uniquingKeysWith: { $1 }), of: destination)
        missing.append(related)
        return nil
    }

    private func insertMissing() throws {
        for related in missing {
            let destination = document.layout.destination(of: related.relationship)
            // Two words may name the same one.
            if try !document.objects(of: destination, with: related.values, in: context).isEmpty {
                continue
            }
            let object = try context.insertObject(entityName: destination.name)
            for (key, value) in related.values { try object.setValue(value, forKey: key) }
            inserted.append(object)
        }
        missing = []
    }
}

extension DocumentSession {
    /// Objects of an entity that have values, two at most.
    func objects(
        of entity: ResolvedEntity, with values: [(key: String, value: AttributeValue)],
        in context: ManagedObjectContext? = nil
    ) throws -> [ManagedObject] {
        var request = FetchRequest(entity.name)
        request.predicate = .and(
            values.map {
                .comparison(QueryComparison(.keyPath([$0.key]), .equal, .constant($0.value)))
            })
        request.fetchLimit = 2
        return Array(try (context ?? self.context).fetch(request))
    }
}

// MARK: - Changes

/// A property of an entity with the value to give it, checked against the model.
enum PropertyChange {
    /// An attribute, or an element of a composite one.
    case attribute(key: String, AttributeValue)
    /// An attribute whose value is computed for each object.
    case computed(ResolvedEntity.Slot, QueryExpression)
    /// A to-one relationship.
    case toOne(ResolvedEntity.Relationship, ManagedObject?)
    /// A to-many relationship: all of its objects, or those to add or remove.
    case toMany(Assignment.Action, ResolvedEntity.Relationship, [ManagedObject])

    /// The change that gives a relationship its objects.
    ///
    /// - Throws: `QuireError` with code `invalidValue` if there are several for a to-one relationship.
    init(
        _ action: Assignment.Action, _ relationship: ResolvedEntity.Relationship,
        _ objects: [ManagedObject], of entity: ResolvedEntity
    ) throws {
        if relationship.isToMany {
            self = .toMany(action, relationship, objects)
            return
        }
        if action != .set { throw Self.notToMany(relationship.name, of: entity) }
        guard objects.count <= 1 else {
            throw QuireError(
                .invalidValue,
                "\(entity.name).\(relationship.name) refers to one object, but \(objects.count) "
                    + "are given.",
                entity: entity.name, property: relationship.name)
        }
        self = .toOne(relationship, objects.first)
    }

    fileprivate static func notToMany(_ key: String, of entity: ResolvedEntity) -> QuireError {
        QuireError(
            .invalidValue,
            "\(entity.name).\(key) is not a to-many relationship, so nothing can be added to it or removed from it; use \(key)=VALUE.",
            entity: entity.name, property: key)
    }

    /// The relationship, if it is one.
    var relationship: ResolvedEntity.Relationship? {
        switch self {
        case .attribute, .computed: nil
        case .toOne(let relationship, _), .toMany(_, let relationship, _): relationship
        }
    }

    /// The effect on the property.
    var action: Assignment.Action {
        if case .toMany(let action, _, _) = self { action } else { .set }
    }

    /// The change with its value computed for an object, from the values that it has now.
    ///
    /// - Throws: `QuireError` with code `invalidQuery` or `invalidValue`.
    @MainActor
    fileprivate func computed(for object: ManagedObject) throws -> PropertyChange {
        guard case .computed(let slot, let expression) = self else { return self }
        guard case .one(.value(let value)) = try expression.operand(for: object) else {
            throw QuireError(
                .invalidQuery, "“\(expression)” is not a single value; use an attribute.",
                entity: object.resolvedEntity.name, property: slot.name)
        }
        do {
            return .attribute(
                key: slot.name,
                try slot.checked(
                    computed: value, in: object.resolvedEntity,
                    of: object.objectID))
        } catch var error as QuireError {
            if case .double(let number) = value, number != number.rounded(),
                slot.storage == .integer
            {
                error.message += " To round it, use trunc(\(expression))."
            }
            throw error
        }
    }

    /// Changes an object.
    func apply(to object: ManagedObject) throws {
        switch self {
        case .attribute(let key, let value): try object.setValue(value, forKey: key)
        case .computed(let slot, _):
            preconditionFailure("The value of \(slot.name) has not been computed.")
        case .toOne(let relationship, let other):
            try object.setObject(other, through: relationship)
        case .toMany(let action, let relationship, let others):
            guard action != .set else {
                return try object.setObjects(others, through: relationship)
            }
            let present = object.objects(relationship.name)
            if let error = object.managedObjectContext?.takeFaultError() { throw error }
            // An object that is there already keeps its place.
            let known = Set((action == .add ? present : others).map(\.objectID))
            let objects =
                action == .add
                ? present + others.filter { !known.contains($0.objectID) }
                : present.filter { !known.contains($0.objectID) }
            try object.setObjects(objects, through: relationship)
        }
    }
}

extension ResolvedEntity {
    /// The dotted names of a composite attribute's elements.
    func elementNames(of composite: String) -> [String] {
        guard case .composite(let slots)? = properties[composite] else { return [] }
        return slots.map { self.slots[$0].name }
    }
}
