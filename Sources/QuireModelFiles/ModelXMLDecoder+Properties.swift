import Foundation
internal import QuireModel
internal import QuireSystem

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
                "Element “\(element.name)” has attributeType=“\(typeName)”, which is not known.",
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
        attribute.isSyncable = boolean("syncable", of: element)
        attribute.isStoredInTruthFile = boolean("storedInTruthFile", of: element)
        attribute.derivationExpression = unlessEmpty("derivationExpression", of: element)
        if boolean("derived", of: element), attribute.derivationExpression == nil {
            attribute.derivationExpression = ""  // For the model's validation to complain about.
        }
        attribute.compositeName = unlessEmpty("composite", of: element)
        attribute.renamingIdentifier =
            element.attribute("elementID") ?? element.attribute("renamingIdentifier")
        attribute.versionHashModifier = element.attribute("versionHashModifier")
        var entries = userInfo(in: element)
        attribute.validationPredicates = [ValidationPredicate](takingFrom: &entries)
        attribute.userInfo = [String: PropertyListValue](modelXMLEntries: entries)
        attribute.defaultValue = value("default", of: element, type: type, owner: owner)
        // Those of other types are left over from when the attribute had another one.
        if type.hasRange {
            let boundType = type == .string ? .integer64 : type
            attribute.minimum = value("min", of: element, type: boundType, owner: owner)
            attribute.maximum = value("max", of: element, type: boundType, owner: owner)
        }
        return attribute
    }

    /// The value that `defaultValueString`, `minValueString` or `maxValueString` gives, and for dates
    /// `defaultDateTimeInterval` and so on: seconds since 2001. The text beside it is what the editor shows,
    /// in the format of its user's country.
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
            // Xcode gives these no default values; ours are base64.
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
                    "\(subject) is “\(text)”, which is taken for \(number.display).", on: element)
                return number
            }
            let reason = (error as? QuireError)?.message ?? "\(error)"
            remark("\(subject) is left out: \(reason)", on: element)
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
        // There is a file with a greatest count of −1, which means none.
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
        relationship.isSyncable = boolean("syncable", of: element)
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
            "Element “\(element.name)” has \(name)=“\(value)”, which is not known and is taken for \(meaning).",
            on: element)
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
