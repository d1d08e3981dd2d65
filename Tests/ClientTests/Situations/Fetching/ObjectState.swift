import Quire
import Testing

/// Where objects are when a program asks for them. An answer must not depend on it.
enum ObjectState: String, CaseIterable, Sendable {
    /// In the store, and not in memory.
    case saved
    /// New in the context.
    case unsaved
    /// In the store with other values and relationships, and changed in the context.
    case edited
    /// Every second object is edited.
    case halfEdited
    /// Every second object is edited in the parent of the context that asks.
    case inParent
    /// New in the parent of the context that asks.
    case newInParent
}

/// Every store with objects in every state.
struct SituationCase: Sendable, CustomTestStringConvertible {
    let store: SituationStore
    let state: ObjectState

    static let all = SituationStore.allCases.flatMap { store in
        ObjectState.allCases.map { Self(store: store, state: $0) }
    }

    var testDescription: String { "\(store.rawValue), \(state.rawValue)" }

    /// Runs a program with a context and the objects that `fill` inserts.
    @MainActor func run(
        _ model: ManagedObjectModel, fill: @MainActor (ManagedObjectContext) throws -> Void,
        _ program: @MainActor (ManagedObjectContext) throws -> Void
    ) async throws {
        try await withSituation(store, model) { container in
            let context = container.viewContext
            try fill(context)
            switch state {
            case .unsaved: try program(context)
            case .newInParent: try program(.mainQueue(parent: context))
            case .saved:
                try context.save()
                context.reset()
                try program(context)
            case .edited:
                let objects = try disguise(every: 1, in: context, model)
                try withExtendedLifetime(objects) { try program(context) }
            case .halfEdited:
                let objects = try disguise(every: 2, in: context, model)
                try withExtendedLifetime(objects) { try program(context) }
            case .inParent:
                let objects = try disguise(every: 2, in: context, model)
                try withExtendedLifetime(objects) { try program(.mainQueue(parent: context)) }
            }
            context.rollback()
        }
    }

    /// Saves objects without values, or with others, and without relationships, and sets these again without saving.
    @MainActor private func disguise(
        every step: Int, in context: ManagedObjectContext, _ model: ManagedObjectModel
    ) throws -> [ManagedObject] {
        try context.save()
        var objects: [ManagedObject] = []
        var restore: [() throws -> Void] = []
        var orders: [() throws -> Void] = []
        for entity in model.entities where !entity.isAbstract {
            var request = FetchRequest(entity.name, sortOrderings: [SortOrdering("SELF")])
            request.includesSubentities = false
            let all: [ManagedObject] = try context.fetch(request)
            for (name, relationship) in entity.relationshipsByName where relationship.isOrdered {
                for object in all {
                    let value = try object.value(forKey: name)
                    orders.append { try object.setValue(value, forKey: name) }
                }
            }
            objects += all.enumerated().filter { $0.offset % step == 0 }.map(\.element)
        }
        for object in objects {
            for (name, attribute) in object.entity.attributesByName
            where attribute.derivationExpression == nil {
                let value = try object.attributeValue(forKey: name)
                restore.append { try object.setAttributeValue(value, forKey: name) }
            }
            for name in object.entity.relationshipsByName.keys {
                let value = try object.value(forKey: name)
                restore.append { try object.setValue(value, forKey: name) }
            }
        }
        for object in objects {
            for (name, attribute) in object.entity.attributesByName
            where attribute.derivationExpression == nil {
                if attribute.isOptional {
                    try object.setAttributeValue(.null, forKey: name)
                } else if attribute.type == .string {
                    try object.setAttributeValue("other", forKey: name)
                }
            }
            for (name, relationship) in object.entity.relationshipsByName {
                if !relationship.isToMany {
                    try object.setValue(nil, forKey: name)
                } else if relationship.isOrdered {
                    try object.setValue([ManagedObject](), forKey: name)
                } else {
                    try object.setValue(Set<ManagedObject>(), forKey: name)
                }
            }
        }
        try context.save()
        for step in restore + orders { try step() }
        return objects
    }
}

extension ManagedObjectContext {
    /// The texts that the objects found have under a key, in the order of that key unless the request gets another.
    ///
    /// The number of objects, and their identifiers, are asked for too, and must agree.
    @MainActor func texts(
        _ key: String, of entity: String, where format: String? = nil,
        _ arguments: (any QueryArgument)?...,
        request change: (inout FetchRequest<ManagedObject>) -> Void = { _ in }
    ) throws -> [String] {
        var request = FetchRequest(entity, sortOrderings: [SortOrdering(key)])
        if let format {
            request.predicate = try QueryPredicate(format: format, arguments: arguments)
        }
        change(&request)
        let found: [ManagedObject] = try fetch(request)
        var texts = found.map { $0[key, as: String.self] ?? "nil" }
        let count = try count(for: request)
        if count != found.count { texts.append("a count of \(count)") }
        let identifiers = try fetchObjectIDs(request)
        if identifiers != found.map(\.objectID) { texts.append("identifiers \(identifiers)") }
        return texts
    }
}
