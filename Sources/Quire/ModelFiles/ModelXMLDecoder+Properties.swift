import Foundation

extension ModelXMLDecoder {
    func attribute(
        from element: ModelXMLElement, in owner: String
    ) throws -> AttributeDescription {
        let name = try required("name", of: element)
        let typeName = element.attribute("attributeType") ?? "Undefined"
        guard
            let type = ModelXMLVocabulary.attributeTypes.first(where: { $0.name == typeName })?.type
        else { throw unknown(typeName, for: "attributeType", of: element) }
        var attribute = AttributeDescription(name: name, type: type)
        attribute.isOptional = try boolean("optional", of: element)
        attribute.isTransient = try boolean("transient", of: element)
        attribute.regularExpression = unlessEmpty("regularExpressionString", of: element)
        attribute.valueTransformerName = element.attribute("valueTransformerName")
        attribute.customClassName = element.attribute("customClassName")
        attribute.usesScalarValueType = try boolean("usesScalarValueType", of: element)
        attribute.allowsExternalBinaryDataStorage =
            try boolean("allowsExternalBinaryDataStorage", of: element)
        attribute.allowsCloudEncryption = try boolean("allowsCloudEncryption", of: element)
        attribute.preservesValueInHistoryOnDeletion =
            try boolean("preserveAfterDeletion", of: element)
        attribute.isIndexedBySpotlight = try boolean("spotlightIndexingEnabled", of: element)
        attribute.isIndexed = try boolean("indexed", of: element)
        attribute.isSyncable = try boolean("syncable", of: element)
        attribute.isStoredInTruthFile = try boolean("storedInTruthFile", of: element)
        attribute.derivationExpression = unlessEmpty("derivationExpression", of: element)
        if try boolean("derived", of: element), attribute.derivationExpression == nil {
            attribute.derivationExpression = ""  // For the model's validation to complain about.
        }
        attribute.compositeName = unlessEmpty("composite", of: element)
        attribute.renamingIdentifier =
            element.attribute("elementID") ?? element.attribute("renamingIdentifier")
        attribute.versionHashModifier = element.attribute("versionHashModifier")
        var userInfo = try userInfo(in: element)
        attribute.validationPredicates = [ValidationPredicate](takingFrom: &userInfo)
        attribute.userInfo = userInfo
        attribute.defaultValue = try value("default", of: element, type: type, owner: owner)
        // Those of other types are left over from when the attribute had another one.
        if type.hasRange {
            let boundType = type == .string ? .integer64 : type
            attribute.minimum = try value("min", of: element, type: boundType, owner: owner)
            attribute.maximum = try value("max", of: element, type: boundType, owner: owner)
        }
        return attribute
    }

    /// The value that `defaultValueString`, `minValueString` or `maxValueString` gives, and for dates
    /// `defaultDateTimeInterval` and so on: seconds since 2001. The text beside it is what the editor shows,
    /// in the format of its user's country.
    private func value(
        _ prefix: String, of element: ModelXMLElement, type: AttributeType, owner: String
    ) throws -> AttributeValue {
        if type == .date, let text = unlessEmpty(prefix + "DateTimeInterval", of: element) {
            guard let interval = Double(text), interval.isFinite else {
                throw unknown(text, for: prefix + "DateTimeInterval", of: element)
            }
            return .date(Date(timeIntervalSinceReferenceDate: interval))
        }
        guard let text = element.attribute(prefix + "ValueString") else { return .null }
        switch type {
        case .undefined, .objectID, .composite: return .null  // Left over from another type.
        case .binary, .transformable:
            // Xcode gives these no default values; ours are base64.
            return (try? AttributeValue(parsing: text, as: type)) ?? .null
        case .string: return .string(text)
        default: break
        }
        if text.isEmpty { return .null }
        do {
            return try AttributeValue(parsing: text, as: type)
        } catch {
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
            let name = element.attribute("name") ?? ""
            throw source.error(
                "Attribute “\(name)” of \(owner) has a \(prefix)ValueString that is wrong: \(error)",
                line: element.line, underlying: error)
        }
    }

    func relationship(
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
        relationship.isToMany = try boolean("toMany", of: element)
        relationship.isOrdered = try boolean("ordered", of: element)
        relationship.isOptional = try boolean("optional", of: element)
        relationship.isTransient = try boolean("transient", of: element)
        relationship.minimumCount = max(0, try integer("minCount", of: element) ?? 0)
        // There is a file with a greatest count of −1, which means none.
        let most = max(0, try integer("maxCount", of: element) ?? 0)
        relationship.maximumCount = relationship.isToMany ? most : 1
        if let rule = element.attribute("deletionRule") {
            guard let known = ModelXMLVocabulary.deleteRules.first(where: { $0.name == rule })
            else { throw unknown(rule, for: "deletionRule", of: element) }
            relationship.deleteRule = known.rule
        }
        relationship.isIndexed = try boolean("indexed", of: element)
        relationship.isIndexedBySpotlight = try boolean("spotlightIndexingEnabled", of: element)
        relationship.isSyncable = try boolean("syncable", of: element)
        relationship.renamingIdentifier =
            element.attribute("elementID") ?? element.attribute("renamingIdentifier")
        relationship.versionHashModifier = element.attribute("versionHashModifier")
        relationship.userInfo = try userInfo(in: element)
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

    func boolean(
        _ name: String, of element: ModelXMLElement, absent: Bool = false
    ) throws -> Bool {
        guard let text = element.attribute(name) else { return absent }
        switch text.lowercased() {
        case "yes", "true", "1": return true
        case "no", "false", "0", "": return false
        default: throw unknown(text, for: name, of: element)
        }
    }

    func integer(_ name: String, of element: ModelXMLElement) throws -> Int? {
        guard let text = unlessEmpty(name, of: element) else { return nil }
        guard let value = Int(text) else { throw unknown(text, for: name, of: element) }
        return value
    }

    func unknown(_ value: String, for name: String, of element: ModelXMLElement) -> QuireError {
        source.error(
            "Element “\(element.name)” has \(name)=“\(value)”, which is not known.",
            line: element.line)
    }
}

extension AttributeType {
    /// Whether an attribute may have a least and greatest value or length.
    var hasRange: Bool {
        switch self {
        case .integer16, .integer32, .integer64, .decimal, .double, .float, .date, .string: true
        default: false
        }
    }
}
