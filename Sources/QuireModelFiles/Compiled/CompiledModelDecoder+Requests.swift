import Foundation
internal import QuireModel
internal import QuireQuery
internal import QuireSystem

extension CompiledModelDecoder {
    // MARK: - Validation

    /// Takes the conditions of an attribute: as its bounds and its regular expression where they say no more than
    /// that, and otherwise as predicates with their messages.
    mutating func decodeValidation(
        _ object: KeyedArchive.Object, of attribute: inout AttributeDescription, _ subject: String
    ) throws {
        let predicates = try archive.list(object["NSValidationPredicates"]) ?? []
        let warnings = try archive.list(object["NSValidationWarnings"]) ?? []
        for (index, value) in predicates.enumerated() {
            try spend()
            var message: String?
            if index < warnings.count, case .string(let text)? = try archive.scalar(warnings[index])
            {
                message = text
            }
            do {
                var unarchiver = PredicateUnarchiver(archive: archive)
                let predicate = try required(unarchiver.predicate(value), "a predicate")
                // A number for a warning is the code of an error that Core Data has a text for.
                if message == nil, attribute.takeBound(predicate) { continue }
                attribute.validationPredicates.append(
                    ValidationPredicate(predicate.description, message: message))
            } catch let error as QuireError {
                remarks.append("A condition of \(subject) is left out: \(error.message)")
            }
        }
    }

    // MARK: - Fetch requests

    /// The bits of the flags of a request that nobody changed. What each stands for is not known.
    static let usualFlags: Int64 = 30

    /// A fetch request; `nil` if its predicate cannot be taken over.
    ///
    /// - Parameter subject: What a remark calls the request.
    mutating func fetchRequest(
        _ object: KeyedArchive.Object, name: String, of subject: String
    ) throws -> FetchRequestTemplate? {
        let entity = try archive.object(object["NSEntity"])
        guard
            let entityName = try text(entity?["NSEntityName"])
                ?? text(object["_NSFetchRequestEntityName"] ?? object["NSEntityName"])
        else {
            remarks.append("\(subject) has no entity and is left out.")
            return nil
        }
        var request = FetchRequestTemplate(name: name, entityName: entityName)
        do {
            var unarchiver = PredicateUnarchiver(archive: archive)
            request.predicateFormat = try unarchiver.predicate(object["NSPredicate"])?.description
        } catch let error as QuireError {
            remarks.append("\(subject) is left out: \(error.message)")
            return nil
        }
        request.fetchLimit = try count(object["NSFetchLimit"])
        request.fetchBatchSize = try count(object["NSBatchSize"])
        let type = try archive.integer(object["NSResultType"]) ?? 0
        if type != 0 { request.resultType = String(type) }
        if !(try archive.list(object["NSSortDescriptors"]) ?? []).isEmpty {
            remarks.append("\(subject) has an order, which is left out: set one when you fetch.")
        }
        if let flags = try archive.integer(object["NSFetchRequestFlags"]), flags != Self.usualFlags
        {
            remarks.append("\(subject) has the options \(flags), which are left out.")
        }
        return request
    }

    private func count(_ value: ArchiveValue?) throws -> Int {
        let number = try archive.integer(value) ?? 0
        return Int(clamping: max(0, number))
    }

    // MARK: - Indexes

    /// An index; `nil` if it cannot be taken over.
    mutating func index(_ value: ArchiveValue, of entity: String) -> FetchIndexDescription? {
        guard let object = try? archive.object(value), let name = try? text(object["NSIndexName"])
        else {
            remarks.append("An index of \(entity) has no name and is left out.")
            leftOutNames.insert("")
            return nil
        }
        var index = FetchIndexDescription(name: name, elements: [])
        do {
            var unarchiver = PredicateUnarchiver(archive: archive)
            index.partialIndexPredicate =
                try unarchiver.predicate(object["NSPartialIndexPredicate"])?.description
            for value in try archive.list(object["NSIndexElements"]) ?? [] {
                try spend()
                index.elements.append(
                    try element(required(archive.object(value), "an index's element")))
            }
        } catch {
            let reason = (error as? QuireError)?.message ?? "\(error)"
            remarks.append("The index “\(name)” of \(entity) is left out: \(reason)")
            leftOutNames.insert(name)
            return nil
        }
        return index
    }

    private func element(
        _ object: KeyedArchive.Object
    ) throws -> FetchIndexDescription.Element {
        var element: FetchIndexDescription.Element
        if let name = try text(object["NSPropertyName"]) {
            element = .init(propertyName: name)
        } else {
            let property = try required(property(object["NSProperty"]), "a property")
            if let name = try text(property["NSPropertyName"]), property["NSExpression"] == nil {
                element = .init(propertyName: name)
            } else {
                var unarchiver = PredicateUnarchiver(archive: archive)
                let expression = try required(
                    unarchiver.expression(property["NSExpression"]), "an expression")
                element =
                    expression == .evaluatedObject
                    ? .init(propertyName: FetchIndexDescription.objectItself)
                    : .init(expression: expression.description)
            }
        }
        element.isAscending = try archive.boolean(object["NSAscending"]) ?? true
        let code = try archive.integer(object["NSFetchIndexElementType"]) ?? 0
        guard let kind = FetchIndexDescription.Kind(rawValue: Int(code)), kind != .fullText else {
            throw QuireError(.unsupported, "It is of an unknown kind, \(code).")
        }
        element.kind = kind
        return element
    }
}

extension AttributeDescription {
    /// Takes a condition for a bound or a regular expression, if it is one that is not set yet.
    fileprivate mutating func takeBound(_ predicate: QueryPredicate) -> Bool {
        guard case .comparison(let comparison) = predicate, comparison.modifier == .direct,
            comparison.options.isEmpty, case .constant(let constant) = comparison.right
        else { return false }
        let isLength = type == .string
        switch (comparison.operator, comparison.left) {
        case (.matches, .evaluatedObject) where isLength && regularExpression == nil:
            guard case .string(let pattern) = constant else { return false }
            regularExpression = pattern
            return true
        case (.greaterOrEqual, .keyPath(["length"])) where isLength && minimum.isNull:
            guard case .integer = constant else { return false }
            minimum = constant
        case (.lessOrEqual, .keyPath(["length"])) where isLength && maximum.isNull:
            guard case .integer = constant else { return false }
            maximum = constant
        case (.greaterOrEqual, .evaluatedObject)
        where !isLength && type.hasRange && minimum.isNull:
            guard let value = try? coerce(constant), !value.isNull else { return false }
            minimum = value
        case (.lessOrEqual, .evaluatedObject) where !isLength && type.hasRange && maximum.isNull:
            guard let value = try? coerce(constant), !value.isNull else { return false }
            maximum = value
        default: return false
        }
        return true
    }
}
