import Foundation
internal import QuireModel
internal import QuireSystem

/// Decodes a model from the elements of a model file.
///
/// Fails only if objects could not be read with the model: for missing names and unknown types. Anything else that is not
/// understood is dropped with a remark.
struct ModelXMLDecoder {
    let source: ModelXMLSource
    /// Messages about oddities of the file.
    var remarks: [String]
    /// Whether entities, and properties, without the attribute “syncable” are synchronized: where no other one has it. Xcode has
    /// not written it for properties since version 10.
    private var syncsEntities = false
    private var syncsProperties = false

    init(source: ModelXMLSource, remarks: [String]) {
        self.source = source
        self.remarks = remarks
    }

    mutating func model(from root: ModelXMLElement) throws -> ManagedObjectModel {
        guard root.name == "model" else {
            throw source.error(
                "The root element is “\(root.name)”, so this is not a Core Data model; its root element would be “model”.",
                line: root.line)
        }
        checkVocabulary(of: root)
        let entities = root.children.filter { $0.name == "entity" }
        syncsEntities = !entities.contains { $0.attribute("syncable") != nil }
        syncsProperties = !entities.contains {
            $0.children.contains { $0.attribute("syncable") != nil }
        }
        var model = ManagedObjectModel()
        model.versionIdentifiers =
            (root.attribute("userDefinedModelVersionIdentifier") ?? "")
            .split(separator: ModelXMLEncoder.identifierSeparator).map(String.init)
        model.usedWithCloudKit = boolean("usedWithCloudKit", of: root)
        model.usedWithSwiftData = boolean("usedWithSwiftData", of: root)
        for child in root.children {
            switch child.name {
            case "entity": model.entities.append(try entity(from: child))
            case "composite": model.composites.append(try composite(from: child))
            case "configuration": model.configurations.append(try configuration(from: child))
            case "fetchRequest":
                let name = child.attribute("name") ?? ""
                if let request = try fetchRequest(from: child, of: "The template “\(name)”") {
                    model.fetchRequestTemplates.append(request)
                }
            default: break  // Ignored by the vocabulary.
            }
        }
        takeSettingsOfTemplates(in: &model, from: root)
        return model
    }

    /// Moves what entities' user info says of templates to these.
    private mutating func takeSettingsOfTemplates(
        in model: inout ManagedObjectModel, from root: ModelXMLElement
    ) {
        let positions = Dictionary(
            model.entities.enumerated().map { ($0.element.name, $0.offset) },
            uniquingKeysWith: { first, _ in first })
        for position in model.fetchRequestTemplates.indices {
            let template = model.fetchRequestTemplates[position]
            guard let entity = positions[template.entityName] else { continue }
            let misunderstood = model.fetchRequestTemplates[position].takeSettings(
                from: &model.entities[entity].userInfo, named: template.name)
            remark(misunderstood: misunderstood, on: root)
        }
    }

    private mutating func remark(misunderstood keys: [String], on element: ModelXMLElement) {
        for key in keys {
            remark(
                "The user info “\(key)” is not a setting of a fetch request; it stays in the user info.",
                on: element)
        }
    }

    /// Adds remarks on elements and attributes outside the vocabulary.
    private mutating func checkVocabulary(of element: ModelXMLElement) {
        guard let known = ModelXMLVocabulary.elements[element.name] else { return }
        for (name, _) in element.attributes
        where !known.attributes.contains(name) && !known.ignoredAttributes.contains(name) {
            remark(
                "Element “\(element.name)” has the attribute “\(name)”, which is unknown and is omitted.",
                on: element)
        }
        for child in element.children where !known.ignoredChildren.contains(child.name) {
            if known.children.contains(child.name) {
                checkVocabulary(of: child)
            } else {
                remark(
                    "Element “\(element.name)” contains the element “\(child.name)”, "
                        + "which is not valid there and is omitted.", on: child)
            }
        }
    }

    mutating func remark(_ message: String, on element: ModelXMLElement) {
        remarks.append(source.remark(message, line: element.line))
    }

    // MARK: - Parts of a model

    private mutating func entity(from element: ModelXMLElement) throws -> EntityDescription {
        var entity = EntityDescription(name: try required("name", of: element))
        entity.managedObjectClassName = element.attribute("representedClassName")
        entity.isAbstract = boolean("isAbstract", of: element)
        entity.superentityName = unlessEmpty("parentEntity", of: element)
        // Xcode uses the renaming identifier as an element's identifier, as stores of such models show.
        entity.renamingIdentifier =
            element.attribute("elementID") ?? element.attribute("renamingIdentifier")
        entity.versionHashModifier = element.attribute("versionHashModifier")
        entity.isSyncable = boolean("syncable", of: element, absent: syncsEntities)
        entity.codeGenerationType = element.attribute("codeGenerationType")
        entity.coreSpotlightDisplayNameExpression =
            element.attribute("coreSpotlightDisplayNameExpression")
        for child in element.children {
            switch child.name {
            case "attribute":
                entity.properties.append(
                    .attribute(try attribute(from: child, in: "entity “\(entity.name)”")))
            case "relationship":
                entity.properties.append(
                    .relationship(try relationship(from: child, in: entity.name)))
            case "fetchedProperty":
                if let fetched = try fetchedProperty(from: child, in: entity.name) {
                    entity.properties.append(.fetched(fetched))
                }
            case "fetchIndex":
                if let index = index(from: child) {
                    entity.indexes.append(index)
                } else {
                    entity.leftOutNames.insert(child.attribute("name") ?? "")
                }
            case "compoundIndexes": entity.compoundIndexes += lists(in: child)
            case "uniquenessConstraints": entity.uniquenessConstraints += lists(in: child)
            default: break  // Read below, or remarked on.
            }
        }
        var entries = userInfo(in: element)
        entity.indexes += [FetchIndexDescription](takingFullTextFrom: &entries)
        entity.userInfo = [String: PropertyListValue](modelXMLEntries: entries)
        entity.takeLeftOutNames()
        return entity
    }

    private mutating func fetchedProperty(
        from element: ModelXMLElement, in entity: String
    ) throws -> FetchedPropertyDescription? {
        let name = try required("name", of: element)
        let subject = "The fetched property “\(entity).\(name)”"
        guard let child = element.children.first(where: { $0.name == "fetchRequest" }) else {
            remark("\(subject) has no fetch request and is omitted.", on: element)
            return nil
        }
        guard var request = try fetchRequest(from: child, of: subject) else { return nil }
        var entries = [String: PropertyListValue](modelXMLEntries: userInfo(in: element))
        remark(misunderstood: request.takeSettings(from: &entries, named: nil), on: element)
        var fetched = FetchedPropertyDescription(name: name, fetchRequest: request)
        fetched.isOptional = boolean("optional", of: element)
        fetched.isSyncable = boolean("syncable", of: element, absent: syncsProperties)
        fetched.userInfo = entries
        return fetched
    }

    /// A fetch request; `nil` if its entity is missing.
    ///
    /// - Parameter subject: The request's name in remarks.
    private mutating func fetchRequest(
        from element: ModelXMLElement, of subject: String
    ) throws -> FetchRequestTemplate? {
        guard let entity = unlessEmpty("entity", of: element) else {
            remark("\(subject) has no entity and is omitted.", on: element)
            return nil
        }
        var request = FetchRequestTemplate(
            name: try required("name", of: element), entityName: entity)
        request.predicateFormat = unlessEmpty("predicateString", of: element)
        request.fetchLimit = integer("fetchLimit", of: element) ?? 0
        request.fetchBatchSize = integer("fetchBatchSize", of: element) ?? 0
        // Unlike elsewhere, an absent attribute means the default of a new fetch request, as compiled models show.
        request.includesSubentities = boolean("includeSubentities", of: element, absent: true)
        request.includesPropertyValues = boolean("includePropertyValues", of: element, absent: true)
        request.includesPendingChanges =
            boolean("includesPendingChanges", of: element, absent: true)
        request.returnsObjectsAsFaults = boolean("returnObjectsAsFaults", of: element, absent: true)
        request.returnsDistinctResults = boolean("returnDistinctResults", of: element)
        request.resultType = element.attribute("resultType")
        return request
    }

    /// An index; `nil` if it is not understood.
    private mutating func index(from element: ModelXMLElement) -> FetchIndexDescription? {
        guard let name = unlessEmpty("name", of: element) else {
            remark("An index has no name and is omitted.", on: element)
            return nil
        }
        var index = FetchIndexDescription(name: name, elements: [])
        index.partialIndexPredicate = unlessEmpty("partialIndexPredicate", of: element)
        for child in element.children where child.name == "fetchIndexElement" {
            var part: FetchIndexDescription.Element
            if let property = child.attribute("property") {
                part = .init(propertyName: property)
            } else if let expression = child.attribute("expression") {
                part = .init(expression: expression)
            } else {
                remark(
                    "An element of the index “\(name)” does not specify a property; the index is omitted.",
                    on: child)
                return nil
            }
            part.expressionType = child.attribute("expressionType")
            switch child.attribute("order") {
            case "ascending", nil: part.isAscending = true
            case "descending": part.isAscending = false
            case let order?: remarkUnknown(order, for: "order", of: child, takenFor: "ascending")
            }
            switch child.attribute("type")?.lowercased() {
            case "binary", nil: part.kind = .binary
            case "rtree": part.kind = .rtree
            case let type?:
                remark(
                    "The index “\(name)” is of an unknown kind, “\(type)”, and is omitted.",
                    on: child)
                return nil
            }
            index.elements.append(part)
        }
        return index
    }

    private mutating func composite(from element: ModelXMLElement) throws -> CompositeDescription {
        let name = try required("name", of: element)
        return CompositeDescription(
            name: name,
            elements: try element.children.filter { $0.name == "attribute" }.map {
                try attribute(from: $0, in: "composite “\(name)”")
            })
    }

    private mutating func configuration(
        from element: ModelXMLElement
    ) throws -> ManagedObjectModel.Configuration {
        var configuration = ManagedObjectModel.Configuration(
            name: try required("name", of: element),
            entityNames: element.children.compactMap { $0.attribute("name") })
        configuration.usedWithCloudKit = boolean("usedWithCloudKit", of: element)
        return configuration
    }

    /// The `value` attributes two elements deep.
    private func lists(in element: ModelXMLElement) -> [[String]] {
        element.children.map { list in list.children.compactMap { $0.attribute("value") } }
            .filter { !$0.isEmpty }
    }

    /// The entries of the `userInfo` within an element.
    func userInfo(in element: ModelXMLElement) -> [String: String] {
        var entries: [String: String] = [:]
        for child in element.children where child.name == "userInfo" {
            for entry in child.children {
                guard let key = entry.attribute("key") else { continue }
                entries[key] = entry.attribute("value") ?? ""
            }
        }
        return entries
    }
}

// MARK: - Properties

extension ModelXMLDecoder {
    mutating func attribute(
        from element: ModelXMLElement, in owner: String
    ) throws -> AttributeDescription {
        let name = try required("name", of: element)
        let typeName = element.attribute("attributeType") ?? "Undefined"
        guard
            let type = ModelXMLVocabulary.attributeTypes.first(where: { $0.name == typeName })?.type
        else {
            throw source.error(
                "Element “\(element.name)” has attributeType=“\(typeName)”, which is unknown.",
                line: element.line)
        }
        var attribute = AttributeDescription(name: name, type: type)
        attribute.isOptional = boolean("optional", of: element)
        attribute.isTransient = boolean("transient", of: element)
        attribute.regularExpression = unlessEmpty("regularExpressionString", of: element)
        attribute.valueTransformerName = element.attribute("valueTransformerName")
        attribute.customClassName = element.attribute("customClassName")
        attribute.usesScalarValueType = boolean("usesScalarValueType", of: element)
        attribute.allowsExternalBinaryDataStorage =
            boolean("allowsExternalBinaryDataStorage", of: element)
        attribute.allowsCloudEncryption = boolean("allowsCloudEncryption", of: element)
        attribute.preservesValueInHistoryOnDeletion =
            boolean("preserveAfterDeletion", of: element)
        attribute.isIndexedBySpotlight = boolean("spotlightIndexingEnabled", of: element)
        attribute.isIndexed = boolean("indexed", of: element)
        attribute.isSyncable = boolean("syncable", of: element, absent: syncsProperties)
        attribute.isStoredInTruthFile = boolean("storedInTruthFile", of: element)
        attribute.derivationExpression = unlessEmpty("derivationExpression", of: element)
        if boolean("derived", of: element), attribute.derivationExpression == nil {
            attribute.derivationExpression = ""  // Reported by the model's validation.
        }
        attribute.compositeName = unlessEmpty("composite", of: element)
        attribute.renamingIdentifier =
            element.attribute("elementID") ?? element.attribute("renamingIdentifier")
        attribute.versionHashModifier = element.attribute("versionHashModifier")
        var entries = userInfo(in: element)
        attribute.validationPredicates = [ValidationPredicate](takingFrom: &entries)
        attribute.userInfo = [String: PropertyListValue](modelXMLEntries: entries)
        attribute.defaultValue = value("default", of: element, type: type, owner: owner)
        // Values of other types are left over from an earlier attribute type.
        if type.hasRange {
            let boundType = type == .string ? .integer64 : type
            attribute.minimum = value("min", of: element, type: boundType, owner: owner)
            attribute.maximum = value("max", of: element, type: boundType, owner: owner)
        }
        return attribute
    }

    /// The value of `defaultValueString`, `minValueString` or `maxValueString`; for dates, of `defaultDateTimeInterval` and
    /// so on: seconds since 2001. The text of a date is the editor's, in the format of its user's locale.
    private mutating func value(
        _ prefix: String, of element: ModelXMLElement, type: AttributeType, owner: String
    ) -> AttributeValue {
        if type == .date, let text = unlessEmpty(prefix + "DateTimeInterval", of: element) {
            guard let interval = Double(text), interval.isFinite else {
                remarkUnknown(text, for: prefix + "DateTimeInterval", of: element, takenFor: "none")
                return .null
            }
            return .date(Date(timeIntervalSinceReferenceDate: interval))
        }
        guard let text = element.attribute(prefix + "ValueString") else { return .null }
        switch type {
        case .undefined, .objectID, .composite: return .null  // Left over from another type.
        case .binary, .transformable:
            // Xcode has no default values for these; ours are base64.
            return (try? AttributeValue(parsing: text, as: type)) ?? .null
        case .string: return .string(text)
        default: break
        }
        if text.isEmpty { return .null }
        do {
            return try AttributeValue(parsing: text, as: type)
        } catch {
            if let truth = type.truth(fromNumber: text) { return truth }
            // “0.0” for an integer, or seconds for a date.
            if let number = Double(text), number.isFinite {
                switch type {
                case .integer16, .integer32, .integer64:
                    if let integer = Int64(exactly: number),
                        let value = try? AttributeValue(parsing: String(integer), as: type)
                    {
                        return value
                    }
                case .date: return .date(Date(timeIntervalSinceReferenceDate: number))
                default: break
                }
            }
            let subject =
                "The \(prefix)ValueString of attribute “\(element.attribute("name") ?? "")” of \(owner)"
            if let number = type.number(fromTruth: text) {
                remark(
                    "\(subject) is “\(text)”, which is read as \(number.display).", on: element)
                return number
            }
            let reason = (error as? QuireError)?.message ?? "\(error)"
            remark("\(subject) is omitted: \(reason)", on: element)
            return .null
        }
    }

    mutating func relationship(
        from element: ModelXMLElement, in entity: String
    ) throws -> RelationshipDescription {
        let name = try required("name", of: element)
        guard let destination = element.attribute("destinationEntity") else {
            throw source.error(
                "Relationship “\(entity).\(name)” has no destination entity.", line: element.line)
        }
        var relationship = RelationshipDescription(
            name: name, destination: destination, inverse: unlessEmpty("inverseName", of: element))
        relationship.inverseEntityName = unlessEmpty("inverseEntity", of: element)
        relationship.isToMany = boolean("toMany", of: element)
        relationship.isOrdered = boolean("ordered", of: element)
        relationship.isOptional = boolean("optional", of: element)
        relationship.isTransient = boolean("transient", of: element)
        relationship.minimumCount = max(0, integer("minCount", of: element) ?? 0)
        // A known file has a maximum count of −1, meaning none.
        let most = max(0, integer("maxCount", of: element) ?? 0)
        relationship.maximumCount = relationship.isToMany ? most : 1
        if let rule = element.attribute("deletionRule") {
            if let known = ModelXMLVocabulary.deleteRules.first(where: { $0.name == rule }) {
                relationship.deleteRule = known.rule
            } else {
                remarkUnknown(rule, for: "deletionRule", of: element, takenFor: "Nullify")
            }
        }
        relationship.isIndexed = boolean("indexed", of: element)
        relationship.isIndexedBySpotlight = boolean("spotlightIndexingEnabled", of: element)
        relationship.isSyncable = boolean("syncable", of: element, absent: syncsProperties)
        relationship.renamingIdentifier =
            element.attribute("elementID") ?? element.attribute("renamingIdentifier")
        relationship.versionHashModifier = element.attribute("versionHashModifier")
        relationship.userInfo = [String: PropertyListValue](modelXMLEntries: userInfo(in: element))
        return relationship
    }

    // MARK: - Values of attributes

    func required(_ name: String, of element: ModelXMLElement) throws -> String {
        guard let value = element.attribute(name) else {
            throw source.error(
                "Element “\(element.name)” lacks the attribute “\(name)”.", line: element.line)
        }
        return value
    }

    func unlessEmpty(_ name: String, of element: ModelXMLElement) -> String? {
        element.attribute(name).flatMap { $0.isEmpty ? nil : $0 }
    }

    mutating func boolean(
        _ name: String, of element: ModelXMLElement, absent: Bool = false
    ) -> Bool {
        guard let text = element.attribute(name) else { return absent }
        switch text.lowercased() {
        case "yes", "true", "1": return true
        case "no", "false", "0", "": return false
        default:
            remarkUnknown(text, for: name, of: element, takenFor: "NO")
            return false
        }
    }

    mutating func integer(_ name: String, of element: ModelXMLElement) -> Int? {
        guard let text = unlessEmpty(name, of: element) else { return nil }
        if let value = Int(text) { return value }
        remarkUnknown(text, for: name, of: element, takenFor: "none")
        return nil
    }

    mutating func remarkUnknown(
        _ value: String, for name: String, of element: ModelXMLElement, takenFor meaning: String
    ) {
        remark(
            "Element “\(element.name)” has \(name)=“\(value)”, which is unknown and is read as \(meaning).",
            on: element)
    }
}

extension AttributeType {
    /// Whether an attribute may have a minimum and maximum value or length.
    var hasRange: Bool {
        switch self {
        case .integer16, .integer32, .integer64, .decimal, .double, .float, .date, .string: true
        default: false
        }
    }
}
