import Foundation
internal import QuireModel
internal import QuireQuery
internal import QuireSystem

/// The bits of an attribute's `NSFlagsKey`.
enum CompiledAttributeFlags {
    static let allowsExternalBinaryDataStorage: Int64 = 4
    static let preservesValueInHistoryOnDeletion: Int64 = 16
}

extension CompiledModelDecoder {
    /// A property; `nil` if its kind is not supported.
    mutating func property(
        _ object: KeyedArchive.Object, name: String, of entity: String
    ) throws -> PropertyDescription? {
        if object.classNames.contains("NSAttributeDescription") {
            return .attribute(
                try attribute(object, name: name, of: "“\(entity).\(name)”", depth: 0))
        }
        if object.classNames.contains("NSRelationshipDescription") {
            return .relationship(try relationship(object, name: name, of: entity))
        }
        if object.classNames.contains("NSFetchedPropertyDescription") {
            let subject = "The fetched property “\(entity).\(name)”"
            guard let request = try archive.object(object["NSFetchRequest"]),
                let template = try fetchRequest(
                    request, name: "fetchedPropertyFetchRequest", of: subject)
            else {
                remarks.append("\(subject) has no fetch request and is omitted.")
                return nil
            }
            var fetched = FetchedPropertyDescription(name: name, fetchRequest: template)
            fetched.isOptional = try archive.boolean(object["NSIsOptional"]) ?? false
            fetched.userInfo = userInfo(object, of: subject)
            return .fetched(fetched)
        }
        remarks.append("“\(entity).\(name)” is an \(object.className) and is omitted.")
        return nil
    }

    // MARK: - Attributes

    /// - Parameters:
    ///   - subject: The attribute's name in remarks.
    ///   - otherDefault: The default value that the composite around it gives instead of its own.
    private mutating func attribute(
        _ object: KeyedArchive.Object, name: String, of subject: String, depth: Int,
        default otherDefault: ArchiveValue? = nil
    ) throws -> AttributeDescription {
        let code = try archive.integer(object["NSAttributeType"]) ?? 0
        guard let type = AttributeType(rawValue: Int(code)) else {
            throw archive.damaged("\(subject) has an unknown type, \(code)")
        }
        var attribute = AttributeDescription(name: name, type: type)
        attribute.isOptional = try archive.boolean(object["NSIsOptional"]) ?? false
        attribute.isTransient = try archive.boolean(object["NSIsTransient"]) ?? false
        attribute.isIndexed = try archive.boolean(object["NSIsIndexed"]) ?? false
        attribute.isIndexedBySpotlight =
            try archive.boolean(object["NSIndexedBySpotlight"]) ?? false
        attribute.allowsCloudEncryption =
            try archive.boolean(object["NSAllowsCloudEncryption"]) ?? false
        attribute.valueTransformerName = try text(object["NSValueTransformerName"])
        let flags = try archive.integer(object["NSFlagsKey"]) ?? 0
        attribute.allowsExternalBinaryDataStorage =
            flags & CompiledAttributeFlags.allowsExternalBinaryDataStorage != 0
        attribute.preservesValueInHistoryOnDeletion =
            flags & CompiledAttributeFlags.preservesValueInHistoryOnDeletion != 0
        if type == .transformable {
            attribute.customClassName = try text(object["NSAttributeValueClassName"])
        }
        attribute.renamingIdentifier = try renaming(object, from: name)
        attribute.versionHashModifier = try text(object["NSVersionHashModifier"])
        attribute.userInfo = userInfo(object, of: subject)
        let defaultValue = otherDefault ?? object["NSDefaultValue"]
        if type != .composite {
            attribute.defaultValue = self.defaultValue(defaultValue, of: attribute, subject)
        }
        try decodeValidation(object, of: &attribute, subject)
        if object.className == "NSDerivedAttributeDescription" {
            attribute.derivationExpression = try derivation(object, of: subject)
            if attribute.derivationExpression == nil { leftOutNames.insert(name) }
        }
        if type == .composite {
            attribute.compositeName = try composite(
                object["NSCompositeElements"] ?? object["NSElements"], named: name, of: subject,
                depth: depth, defaults: elementDefaults(defaultValue, of: subject))
        }
        return attribute
    }

    private mutating func defaultValue(
        _ value: ArchiveValue?, of attribute: AttributeDescription, _ subject: String
    ) -> AttributeValue {
        do {
            let value = AttributeValue(try archive.scalar(value))
            switch (attribute.type, value) {
            // Numbers for booleans, and vice versa; texts for attributes without a type.
            case (.boolean, .integer(let number)): return .boolean(number != 0)
            case (.boolean, .double(let number)): return .boolean(number != 0)
            case (.boolean, .decimal(let number)): return .boolean(number != 0)
            case (_, .boolean(let truth)):
                if let number = attribute.type.number(truth ? 1 : 0) { return number }
            case (.integer16, .double(let number)), (.integer32, .double(let number)),
                (.integer64, .double(let number)):
                guard let exact = Int64(exactly: number) else { break }
                return try attribute.coerce(.integer(exact))
            case (.string, .string): break
            case (_, .string(let text)):
                if let number = attribute.type.number(fromTruth: text) {
                    remarks.append(
                        "\(subject) is a number with the default value “\(text)”, which is read as \(number.display)."
                    )
                    return number
                }
                if let truth = attribute.type.truth(fromNumber: text) { return truth }
                return try AttributeValue(parsing: text, as: attribute.type)
            default: break
            }
            return try attribute.coerce(value)
        } catch {
            remarks.append(
                "\(subject) has a default value that cannot be read: \(error)")
            return .null
        }
    }

    /// The default value of a composite: those of its elements, by name.
    private mutating func elementDefaults(
        _ value: ArchiveValue?, of subject: String
    ) -> [String: ArchiveValue] {
        if (try? archive.scalar(value)) == .null { return [:] }
        do { return try archive.namedValues(value) ?? [:] } catch {
            remarks.append(
                "\(subject) has a default value that cannot be read: it does not specify the elements."
            )
            return [:]
        }
    }

    /// The name of the composite with an attribute's elements. Archives do not keep the names of composites.
    private mutating func composite(
        _ value: ArchiveValue?, named name: String, of subject: String, depth: Int,
        defaults: [String: ArchiveValue]
    ) throws -> String {
        guard depth < 16 else { throw archive.damaged("\(subject) is nested too deeply") }
        var elements: [AttributeDescription] = []
        for element in try archive.list(value) ?? [] {
            let object = try required(archive.object(element), "an element")
            let elementName = try required(archive.string(object["NSPropertyName"]), "a name")
            elements.append(
                try attribute(
                    object, name: elementName, of: "\(subject), element “\(elementName)”,",
                    depth: depth + 1, default: defaults[elementName]))
            try spend()
        }
        if let same = composites.first(where: { $0.elements == elements }) { return same.name }
        let base = name.prefix(1).uppercased() + name.dropFirst()
        var candidate = base
        var number = 2
        while composites.contains(where: { $0.name == candidate }) {
            candidate = "\(base)\(number)"
            number += 1
        }
        composites.append(CompositeDescription(name: candidate, elements: elements))
        return candidate
    }

    private mutating func derivation(
        _ object: KeyedArchive.Object, of subject: String
    ) throws -> String? {
        var unarchiver = PredicateUnarchiver(archive: archive)
        do {
            if try archive.object(object["NSFilteringPredicate"]) != nil {
                remarks.append(
                    "\(subject) is derived only from some objects; the condition is omitted.")
            }
            let expression = try unarchiver.expression(object["NSDerivationExpression"])
            guard let text = expression.flatMap(AttributeDerivation.text) else {
                throw archive.unexpected("a derivation")
            }
            return text
        } catch let error as QuireError {
            remarks.append("\(subject) has an unknown derivation: \(error.message)")
            return nil
        }
    }

    // MARK: - Relationships

    private mutating func relationship(
        _ object: KeyedArchive.Object, name: String, of entity: String
    ) throws -> RelationshipDescription {
        let subject = "“\(entity).\(name)”"
        let destination = try archive.object(object["NSDestinationEntity"])
        let destinationName =
            try text(destination?["NSEntityName"]) ?? text(object["_NSDestinationEntityName"])
        let inverse = try property(object["NSInverseRelationship"])
        let inverseName =
            try text(inverse?["NSPropertyName"]) ?? text(object["_NSInverseRelationshipName"])
        var relationship = RelationshipDescription(
            name: name, destination: try required(destinationName, "a destination entity"),
            inverse: inverseName)
        // Unbounded is 0, or −1 in models made in code.
        let most = try archive.integer(object["NSMaxCount"]) ?? 1
        relationship.isToMany = most != 1
        relationship.maximumCount = Self.count(most, of: subject, &remarks)
        relationship.minimumCount = Self.count(
            try archive.integer(object["NSMinCount"]) ?? 0, of: subject, &remarks)
        relationship.isOrdered = try archive.boolean(object["NSIsOrdered"]) ?? false
        relationship.isOptional = try archive.boolean(object["NSIsOptional"]) ?? false
        relationship.isTransient = try archive.boolean(object["NSIsTransient"]) ?? false
        relationship.isIndexed = try archive.boolean(object["NSIsIndexed"]) ?? false
        relationship.isIndexedBySpotlight =
            try archive.boolean(object["NSIndexedBySpotlight"]) ?? false
        let rule = try archive.integer(object["NSDeleteRule"]) ?? 1
        relationship.deleteRule = Self.deleteRule(rule, of: subject, &remarks)
        relationship.renamingIdentifier = try renaming(object, from: name)
        relationship.versionHashModifier = try text(object["NSVersionHashModifier"])
        relationship.userInfo = userInfo(object, of: subject)
        return relationship
    }

    /// A minimum or maximum count; 0, meaning unbounded, for one that no relationship can reach.
    static func count(_ number: Int64, of subject: String, _ remarks: inout [String]) -> Int {
        if number < Int32.max { return Int(max(0, number)) }
        remarks.append("\(subject) has the count \(number), which is read as unbounded.")
        return 0
    }

    /// A delete rule; Core Data's default for invalid codes.
    static func deleteRule(
        _ code: Int64, of subject: String, _ remarks: inout [String]
    ) -> DeleteRule {
        if let rule = DeleteRule(rawValue: Int(code)) { return rule }
        remarks.append(
            "\(subject) has an unknown delete rule, \(code), which is read as Nullify.")
        return .nullify
    }
}

extension AttributeDerivation {
    /// The derivation expression as text; `nil` if it is not a valid derivation.
    static func text(of expression: QueryExpression) -> String? {
        let text: String
        switch expression {
        case .keyPath(let keys): text = keys.joined(separator: ".")
        case .function(.now, _): text = "now()"
        case .function(.count, let arguments):
            guard case .keyPath(let keys)? = arguments.first else { return nil }
            text = keys.joined(separator: ".") + ".@count"
        case .function(.sum, let arguments):
            guard case .keyPath(let keys)? = arguments.first, keys.count > 1 else { return nil }
            text = "\(keys[0]).@sum.\(keys.dropFirst().joined(separator: "."))"
        case .function(let function, let arguments):
            let functions: [QueryFunction: TextFunction] = [
                .canonical: .canonical, .uppercase: .uppercase, .lowercase: .lowercase,
            ]
            guard let name = functions[function], case .keyPath(let keys)? = arguments.first else {
                return nil
            }
            text = "\(name.rawValue):(\(keys.joined(separator: ".")))"
        default: return nil
        }
        return (try? AttributeDerivation(text)) == nil ? nil : text
    }
}

// MARK: - Request templates

extension CompiledModelDecoder {
    // MARK: - Validation

    /// Decodes an attribute's validation predicates: as bounds and regular expression if these are equivalent, otherwise as
    /// predicates with their messages.
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
                // A numeric warning is the code of an error for which Core Data has a message.
                if message == nil, attribute.takeBound(predicate) { continue }
                attribute.validationPredicates.append(
                    ValidationPredicate(predicate.description, message: message))
            } catch let error as QuireError {
                remarks.append("A condition of \(subject) is omitted: \(error.message)")
            }
        }
    }

    // MARK: - Fetch requests

    /// The default flag bits of a fetch request. Their individual meanings are undocumented.
    static let usualFlags: Int64 = 30

    /// A fetch request; `nil` if its predicate cannot be decoded.
    ///
    /// - Parameter subject: The request's name in remarks.
    mutating func fetchRequest(
        _ object: KeyedArchive.Object, name: String, of subject: String
    ) throws -> FetchRequestTemplate? {
        let entity = try archive.object(object["NSEntity"])
        guard
            let entityName = try text(entity?["NSEntityName"])
                ?? text(object["_NSFetchRequestEntityName"] ?? object["NSEntityName"])
        else {
            remarks.append("\(subject) has no entity and is omitted.")
            return nil
        }
        var request = FetchRequestTemplate(name: name, entityName: entityName)
        do {
            var unarchiver = PredicateUnarchiver(archive: archive)
            request.predicateFormat = try unarchiver.predicate(object["NSPredicate"])?.description
        } catch let error as QuireError {
            remarks.append("\(subject) is omitted: \(error.message)")
            return nil
        }
        request.fetchLimit = try count(object["NSFetchLimit"])
        request.fetchOffset = try count(object["NSFetchOffset"])
        request.fetchBatchSize = try count(object["NSBatchSize"])
        for value in try archive.list(object["NSRelationshipKeyPathsForPrefetching"]) ?? [] {
            try spend()
            if let keyPath = try text(value) {
                request.relationshipKeyPathsForPrefetching.append(keyPath)
            }
        }
        for value in try archive.list(object["NSSortDescriptors"]) ?? [] {
            try spend()
            if let ordering = try sortOrdering(value, of: subject) {
                request.sortOrderings.append(ordering)
            }
        }
        let type = try archive.integer(object["NSResultType"]) ?? 0
        if type != 0 { request.resultType = String(type) }
        if let flags = try archive.integer(object["NSFetchRequestFlags"]), flags != Self.usualFlags
        {
            remarks.append("\(subject) has the options \(flags), which are omitted.")
        }
        return request
    }

    /// A sort descriptor; `nil` if it has no key path, or compares by a method of its own, which is remarked on.
    private mutating func sortOrdering(
        _ value: ArchiveValue, of subject: String
    ) throws -> SortOrdering? {
        guard let object = try archive.object(value), let key = try text(object["NSKey"]),
            !key.isEmpty
        else {
            remarks.append("\(subject) has a sort descriptor without a key, which is omitted.")
            return nil
        }
        let name = try text(object["NSSelector"]) ?? SortSelector.compare.rawValue
        guard let selector = SortSelector(rawValue: name) else {
            remarks.append("\(subject) is sorted by “\(key)” with \(name), which is omitted.")
            return nil
        }
        return SortOrdering(
            key, ascending: try archive.boolean(object["NSAscending"]) ?? true,
            options: selector.options)
    }

    private func count(_ value: ArchiveValue?) throws -> Int {
        let number = try archive.integer(value) ?? 0
        return Int(clamping: max(0, number))
    }

    // MARK: - Indexes

    /// An index; `nil` if it cannot be decoded.
    mutating func index(_ value: ArchiveValue, of entity: String) -> FetchIndexDescription? {
        guard let object = try? archive.object(value), let name = try? text(object["NSIndexName"])
        else {
            remarks.append("An index of \(entity) has no name and is omitted.")
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
            remarks.append("The index “\(name)” of \(entity) is omitted: \(reason)")
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
    /// Converts a predicate to a bound or regular expression, if it is one and not yet set.
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
