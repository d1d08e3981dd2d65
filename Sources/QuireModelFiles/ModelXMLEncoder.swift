import Foundation
internal import QuireModel

/// Encodes a model as the elements of a model file: the inverse of ``ModelXMLDecoder``.
///
/// Defaults are omitted, as by Xcode. Properties keep their order, so that decoding gives an equal model; Xcode sorts them
/// when it saves.
struct ModelXMLEncoder {
    /// Xcode's models have one version identifier. Several are joined by newlines.
    static let identifierSeparator: Character = "\n"

    static func root(of model: ManagedObjectModel) -> ModelXMLElement {
        var root = element("model")
        // Required by Xcode. The numbers are those of a version that writes this format.
        root.set("type", "com.apple.IDECoreDataModeler.DataModel")
        root.set("documentVersion", "1.0")
        root.set("lastSavedToolsVersion", "22758")
        root.set("systemVersion", "Linux")
        root.set("minimumToolsVersion", "Automatic")
        root.set("sourceLanguage", "Swift")
        root.set("usedWithCloudKit", model.usedWithCloudKit)
        root.set("usedWithSwiftData", model.usedWithSwiftData)
        root.set(
            "userDefinedModelVersionIdentifier",
            model.versionIdentifiers.joined(separator: String(identifierSeparator)))
        root.children += model.entities.map { entity in
            element(
                entity,
                templates: model.fetchRequestTemplates.filter { $0.entityName == entity.name })
        }
        root.children += model.fetchRequestTemplates.map(element)
        root.children += model.configurations.map(element)
        root.children += model.composites.map(element)
        return root
    }

    private static func element(_ name: String) -> ModelXMLElement {
        ModelXMLElement(name: name, attributes: [], line: 0)
    }

    private static func element(
        _ entity: EntityDescription, templates: [FetchRequestTemplate]
    ) -> ModelXMLElement {
        var result = element("entity")
        result.set("name", entity.name)
        result.set("representedClassName", entity.managedObjectClassName)
        result.set("isAbstract", entity.isAbstract)
        result.set("parentEntity", entity.superentityName)
        result.set("elementID", entity.renamingIdentifier)
        result.set("versionHashModifier", entity.versionHashModifier)
        result.set("syncable", entity.isSyncable ? "YES" : "NO")
        result.set("codeGenerationType", entity.codeGenerationType)
        result.set("coreSpotlightDisplayNameExpression", entity.coreSpotlightDisplayNameExpression)
        for property in entity.properties {
            switch property {
            case .attribute(let attribute): result.children.append(element(attribute))
            case .relationship(let relationship): result.children.append(element(relationship))
            case .fetched(let fetched): result.children.append(element(fetched))
            }
        }
        result.children += entity.indexes.filter { !$0.isFullText }.map(element)
        result.add(
            lists: entity.compoundIndexes, as: ("compoundIndexes", "compoundIndex", "index"))
        result.add(
            lists: entity.uniquenessConstraints,
            as: ("uniquenessConstraints", "uniquenessConstraint", "constraint"))
        var entries = entity.userInfoInFile.modelXMLEntries
        entries.merge(entity.indexes.fullTextEntries) { $1 }
        for template in templates {
            entries.merge(template.userInfoEntries(named: template.name)) { $1 }
        }
        result.add(userInfo: entries)
        return result
    }

    private static func element(_ attribute: AttributeDescription) -> ModelXMLElement {
        var result = element("attribute")
        result.set("name", attribute.name)
        result.set("optional", attribute.isOptional)
        result.set("transient", attribute.isTransient)
        if attribute.type != .undefined {
            result.set(
                "attributeType",
                ModelXMLVocabulary.attributeTypes.first { $0.type == attribute.type }?.name)
        }
        result.set(
            "min", attribute.minimum, of: attribute.type == .string ? .integer64 : attribute.type)
        result.set(
            "max", attribute.maximum, of: attribute.type == .string ? .integer64 : attribute.type)
        result.set("default", attribute.defaultValue, of: attribute.type)
        result.set("regularExpressionString", attribute.regularExpression)
        result.set("usesScalarValueType", attribute.usesScalarValueType)
        result.set("valueTransformerName", attribute.valueTransformerName)
        result.set("customClassName", attribute.customClassName)
        result.set("composite", attribute.compositeName)
        result.set("derived", attribute.derivationExpression != nil)
        result.set("derivationExpression", attribute.derivationExpression)
        result.set("allowsExternalBinaryDataStorage", attribute.allowsExternalBinaryDataStorage)
        result.set("allowsCloudEncryption", attribute.allowsCloudEncryption)
        result.set("preserveAfterDeletion", attribute.preservesValueInHistoryOnDeletion)
        result.set("storedInTruthFile", attribute.isStoredInTruthFile)
        result.set("spotlightIndexingEnabled", attribute.isIndexedBySpotlight)
        result.set("indexed", attribute.isIndexed)
        result.set("elementID", attribute.renamingIdentifier)
        result.set("versionHashModifier", attribute.versionHashModifier)
        result.set("syncable", attribute.isSyncable ? "YES" : "NO")
        result.add(
            userInfo: attribute.userInfo.modelXMLEntries.merging(
                attribute.validationPredicates.userInfoEntries, uniquingKeysWith: { $1 }))
        return result
    }

    private static func element(_ relationship: RelationshipDescription) -> ModelXMLElement {
        var result = element("relationship")
        result.set("name", relationship.name)
        result.set("optional", relationship.isOptional)
        result.set("transient", relationship.isTransient)
        result.set("toMany", relationship.isToMany)
        if relationship.minimumCount != 0 {
            result.set("minCount", String(relationship.minimumCount))
        }
        if !relationship.isToMany || relationship.maximumCount != 0 {
            result.set("maxCount", relationship.isToMany ? String(relationship.maximumCount) : "1")
        }
        result.set("ordered", relationship.isOrdered)
        result.set(
            "deletionRule",
            ModelXMLVocabulary.deleteRules.first { $0.rule == relationship.deleteRule }?.name)
        result.set("destinationEntity", relationship.destinationEntityName)
        result.set("inverseName", relationship.inverseName)
        result.set("inverseEntity", relationship.inverseEntityName)
        result.set("indexed", relationship.isIndexed)
        result.set("spotlightIndexingEnabled", relationship.isIndexedBySpotlight)
        result.set("elementID", relationship.renamingIdentifier)
        result.set("versionHashModifier", relationship.versionHashModifier)
        result.set("syncable", relationship.isSyncable ? "YES" : "NO")
        result.add(userInfo: relationship.userInfo.modelXMLEntries)
        return result
    }

    private static func element(_ fetched: FetchedPropertyDescription) -> ModelXMLElement {
        var result = element("fetchedProperty")
        result.set("name", fetched.name)
        result.set("optional", fetched.isOptional)
        result.set("syncable", fetched.isSyncable ? "YES" : "NO")
        result.children.append(element(fetched.fetchRequest))
        result.add(
            userInfo: fetched.userInfo.modelXMLEntries.merging(
                fetched.fetchRequest.userInfoEntries(named: nil), uniquingKeysWith: { $1 }))
        return result
    }

    private static func element(_ request: FetchRequestTemplate) -> ModelXMLElement {
        var result = element("fetchRequest")
        result.set("name", request.name)
        result.set("entity", request.entityName)
        result.set("predicateString", request.predicateFormat)
        if request.fetchLimit != 0 { result.set("fetchLimit", String(request.fetchLimit)) }
        if request.fetchBatchSize != 0 {
            result.set("fetchBatchSize", String(request.fetchBatchSize))
        }
        result.set("resultType", request.resultType)
        for (name, value) in [
            ("includeSubentities", request.includesSubentities),
            ("includePropertyValues", request.includesPropertyValues),
            ("includesPendingChanges", request.includesPendingChanges),
            ("returnObjectsAsFaults", request.returnsObjectsAsFaults),
        ] where !value {
            result.set(name, "NO")
        }
        result.set("returnDistinctResults", request.returnsDistinctResults)
        return result
    }

    private static func element(_ index: FetchIndexDescription) -> ModelXMLElement {
        var result = element("fetchIndex")
        result.set("name", index.name)
        result.set("partialIndexPredicate", index.partialIndexPredicate)
        result.children = index.elements.map { part in
            var child = element("fetchIndexElement")
            child.set("property", part.propertyName)
            child.set("expression", part.expression)
            child.set("expressionType", part.expressionType)
            child.set("type", part.kind == .rtree ? "RTree" : "Binary")
            child.set("order", part.isAscending ? "ascending" : "descending")
            return child
        }
        return result
    }

    private static func element(
        _ configuration: ManagedObjectModel.Configuration
    ) -> ModelXMLElement {
        var result = element("configuration")
        result.set("name", configuration.name)
        result.set("usedWithCloudKit", configuration.usedWithCloudKit)
        result.children = configuration.entityNames.map { name in
            var child = element("memberEntity")
            child.set("name", name)
            return child
        }
        return result
    }

    private static func element(_ composite: CompositeDescription) -> ModelXMLElement {
        var result = element("composite")
        result.set("name", composite.name)
        result.children = composite.elements.map(element)
        return result
    }
}

extension ModelXMLElement {
    fileprivate mutating func set(_ name: String, _ value: String?) {
        if let value { attributes.append((name, value)) }
    }

    fileprivate mutating func set(_ name: String, _ value: Bool) {
        if value { attributes.append((name, "YES")) }
    }

    /// Sets `defaultValueString` and similar attributes.
    fileprivate mutating func set(
        _ prefix: String, _ value: AttributeValue, of type: AttributeType
    ) {
        switch value {
        case .null: break
        case .date(let date):
            let text = date.timeIntervalSinceReferenceDate.description
            set(prefix + "DateTimeInterval", text.hasSuffix(".0") ? String(text.dropLast(2)) : text)
        case .boolean(let truth): set(prefix + "ValueString", truth ? "YES" : "NO")
        default: set(prefix + "ValueString", value.text(as: type))
        }
    }

    /// Lists of names, three elements deep.
    fileprivate mutating func add(
        lists: [[String]], as names: (outer: String, list: String, item: String)
    ) {
        if lists.isEmpty { return }
        var outer = ModelXMLElement(name: names.outer, attributes: [], line: 0)
        outer.children = lists.map { list in
            var element = ModelXMLElement(name: names.list, attributes: [], line: 0)
            element.children = list.map {
                ModelXMLElement(name: names.item, attributes: [("value", $0)], line: 0)
            }
            return element
        }
        children.append(outer)
    }

    fileprivate mutating func add(userInfo: [String: String]) {
        if userInfo.isEmpty { return }
        var element = ModelXMLElement(name: "userInfo", attributes: [], line: 0)
        element.children = userInfo.sorted { $0.key < $1.key }.map {
            ModelXMLElement(
                name: "entry", attributes: [("key", $0.key), ("value", $0.value)], line: 0)
        }
        children.append(element)
    }
}
