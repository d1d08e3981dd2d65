import Foundation
internal import QuireModel
internal import QuireQuery
internal import QuireSystem

/// The bits of a property's `_P`: its flags, and its absent fields.
private enum PropertyBits {
    static let always: Int64 = 0x01
    static let optional: Int64 = 0x02
    static let readOnly: Int64 = 0x04
    static let transient: Int64 = 0x08
    static let noPredicates: Int64 = 0x10
    static let noWarnings: Int64 = 0x20
    static let noUserInfo: Int64 = 0x40
    static let noModifier: Int64 = 0x80
    static let ordered: Int64 = 0x400
}

/// The fields common to all kinds of properties.
private struct PropertyParts {
    var name: String
    var isOptional = false
    var isTransient = false
    var isReadOnly = false
    var isOrdered = false
    var isIndexed = false
    var isIndexedBySpotlight = false
    var renamingIdentifier: String?
    var versionHashModifier: String?
    var userInfo: [String: PropertyListValue] = [:]
    var predicates: [ArchiveValue] = []
    var warnings: [ArchiveValue] = []
}

extension CompiledModelEncoder {
    private static let propertyClasses = ["NSPropertyDescription", "NSObject"]

    /// Defines a reserved property; returns whether it could be encoded.
    mutating func define(
        _ property: PropertyDescription, at reference: ArchiveValue, of entity: EntityDescription
    ) -> Bool {
        switch property {
        case .attribute(let attribute):
            define(attribute, at: reference, in: entity.name)
            return true
        case .relationship(let relationship):
            define(relationship, at: reference, in: entity.name)
            return true
        case .fetched(let fetched):
            return define(fetched, at: reference, in: entity.name)
        }
    }

    private mutating func fields(
        of parts: PropertyParts, in entity: String?
    ) -> [ArchiveValue.Entry] {
        var bits = PropertyBits.always
        var fields: [ArchiveValue.Entry] = [
            .init("NSPropertyName", writer.add(parts.name)),
            .init("NSEntity", reference(to: entity)),
            .init("NSRenamingIdentifier", writer.add(parts.renamingIdentifier ?? parts.name)),
        ]
        for (isSo, bit, key) in [
            (parts.isOptional, PropertyBits.optional, "NSIsOptional"),
            (parts.isReadOnly, PropertyBits.readOnly, "NSIsReadOnly"),
            (parts.isTransient, PropertyBits.transient, "NSIsTransient"),
            (parts.isOrdered, PropertyBits.ordered, "NSIsOrdered"),
            (parts.isIndexed, 0, "NSIsIndexed"),
            (parts.isIndexedBySpotlight, 0, "NSIndexedBySpotlight"),
        ] where isSo {
            bits |= bit
            fields.append(.init(key, .boolean(true)))
        }
        if parts.predicates.isEmpty {
            bits |= PropertyBits.noPredicates | PropertyBits.noWarnings
        } else {
            let predicates = writer.add(array: parts.predicates)
            let warnings = writer.add(array: parts.warnings)
            fields.append(.init("NSValidationPredicates", predicates))
            fields.append(.init("NSValidationWarnings", warnings))
        }
        if parts.userInfo.isEmpty {
            bits |= PropertyBits.noUserInfo
        } else {
            fields.append(
                .init("NSUserInfo", writer.add(propertyList: .dictionary(parts.userInfo))))
        }
        if let modifier = parts.versionHashModifier, !modifier.isEmpty {
            fields.append(.init("NSVersionHashModifier", writer.add(modifier)))
        } else {
            bits |= PropertyBits.noModifier
        }
        fields.append(.init("_P", .integer(bits)))
        return fields
    }

    // MARK: - Attributes

    private mutating func define(
        _ attribute: AttributeDescription, at reference: ArchiveValue, in entity: String?
    ) {
        let subject = entity.map { "“\($0).\(attribute.name)”" } ?? "“\(attribute.name)”"
        var parts = PropertyParts(name: attribute.name)
        parts.isOptional = attribute.isOptional
        parts.isTransient = attribute.isTransient
        parts.isIndexed = attribute.isIndexed
        parts.isIndexedBySpotlight = attribute.isIndexedBySpotlight
        parts.renamingIdentifier = attribute.renamingIdentifier
        parts.versionHashModifier = attribute.versionHashModifier
        parts.userInfo = attribute.userInfo
        addValidation(of: attribute, subject, to: &parts)
        var classes = ["NSAttributeDescription"] + Self.propertyClasses
        var fields: [ArchiveValue.Entry] = []
        if let derivation = attribute.derivationExpression.flatMap({ try? AttributeDerivation($0) }
        ),
            let expression = attempt(
                "The derivation of \(subject)",
                { encoder in
                    try encoder.archiver.add(derivation.expression, to: &encoder.writer)
                })
        {
            classes.insert("NSDerivedAttributeDescription", at: 0)
            parts.isReadOnly = true
            fields.append(.init("NSDerivationExpression", expression))
            fields.append(.init("NSFilteringPredicate", .null))
        }
        if attribute.type == .composite {
            classes.insert("NSCompositeAttributeDescription", at: 0)
            fields.append(.init("NSCompositeElements", addElements(of: attribute)))
        }
        var flags: Int64 = 0
        if attribute.allowsExternalBinaryDataStorage {
            flags |= CompiledAttributeFlags.allowsExternalBinaryDataStorage
        }
        if attribute.preservesValueInHistoryOnDeletion {
            flags |= CompiledAttributeFlags.preservesValueInHistoryOnDeletion
        }
        let defaultValue = KeyedArchive.Scalar(attribute.defaultValue)
        fields += [
            .init("NSAttributeType", .integer(Int64(attribute.type.rawValue))),
            .init("NSAttributeValueClassName", writer.add(attribute.valueClassName)),
            .init("NSValueTransformerName", writer.add(attribute.valueTransformerName)),
            .init("NSFlagsKey", .integer(flags)),
            .init(
                "NSDefaultValue",
                defaultValue.map { $0 == .null ? .null : writer.add(scalar: $0) } ?? .null),
        ]
        if attribute.allowsCloudEncryption {
            fields.append(.init("NSAllowsCloudEncryption", .boolean(true)))
        }
        writer.define(
            reference, as: classes, fields + self.fields(of: parts, in: entity))
    }

    private mutating func addElements(of attribute: AttributeDescription) -> ArchiveValue {
        var elements: [ArchiveValue] = []
        for element in attribute.compositeName.flatMap({ composites[$0] })?.elements ?? [] {
            let reference = writer.reserve()
            define(element, at: reference, in: nil)
            elements.append(reference)
        }
        return writer.add(array: elements)
    }

    /// Core Data's error codes for bounds and regular expressions, as archived.
    private enum ErrorCode {
        static let numberTooLarge: Int64 = 1610
        static let numberTooSmall: Int64 = 1620
        static let dateTooLate: Int64 = 1630
        static let dateTooSoon: Int64 = 1640
        static let textTooLong: Int64 = 1660
        static let textTooShort: Int64 = 1670
        static let textDoesNotMatch: Int64 = 1680
    }

    private mutating func addValidation(
        of attribute: AttributeDescription, _ subject: String, to parts: inout PropertyParts
    ) {
        let isText = attribute.type == .string
        let isDate = attribute.type == .date
        let left: QueryExpression = isText ? .keyPath(["length"]) : .evaluatedObject
        var conditions: [(predicate: QueryPredicate, code: Int64)] = []
        if !attribute.minimum.isNull {
            conditions.append(
                (
                    .comparison(.init(left, .greaterOrEqual, .constant(attribute.minimum))),
                    isText
                        ? ErrorCode.textTooShort
                        : isDate ? ErrorCode.dateTooSoon : ErrorCode.numberTooSmall
                ))
        }
        if !attribute.maximum.isNull {
            conditions.append(
                (
                    .comparison(.init(left, .lessOrEqual, .constant(attribute.maximum))),
                    isText
                        ? ErrorCode.textTooLong
                        : isDate ? ErrorCode.dateTooLate : ErrorCode.numberTooLarge
                ))
        }
        if let pattern = attribute.regularExpression {
            conditions.append(
                (
                    .comparison(.init(.evaluatedObject, .matches, .constant(.string(pattern)))),
                    ErrorCode.textDoesNotMatch
                ))
        }
        for (predicate, code) in conditions {
            let added = attempt("A bound of \(subject)") { encoder in
                try encoder.archiver.add(predicate, to: &encoder.writer)
            }
            guard let added else { continue }
            parts.predicates.append(added)
            parts.warnings.append(writer.add(scalar: .integer(code)))
        }
        for validation in attribute.validationPredicates {
            let added = attempt("The condition “\(validation.format)” of \(subject)") { encoder in
                try encoder.archiver.add(
                    QueryPredicate(format: validation.format), to: &encoder.writer)
            }
            guard let added else { continue }
            parts.predicates.append(added)
            parts.warnings.append(writer.add(validation.message ?? "is not valid"))
        }
    }

    // MARK: - Relationships

    private mutating func define(
        _ relationship: RelationshipDescription, at reference: ArchiveValue, in entity: String
    ) {
        var parts = PropertyParts(name: relationship.name)
        parts.isOptional = relationship.isOptional
        parts.isTransient = relationship.isTransient
        parts.isOrdered = relationship.isOrdered
        parts.isIndexed = relationship.isIndexed
        parts.isIndexedBySpotlight = relationship.isIndexedBySpotlight
        parts.renamingIdentifier = relationship.renamingIdentifier
        parts.versionHashModifier = relationship.versionHashModifier
        parts.userInfo = relationship.userInfo
        let destination = relationship.destinationEntityName
        let inverse = relationship.inverseName.flatMap { name in
            owner(of: name, from: destination).map { self.reference(to: name, of: $0) }
        }
        let fields: [ArchiveValue.Entry] = [
            .init("NSDestinationEntity", self.reference(to: destination)),
            .init("_NSDestinationEntityName", writer.add(destination)),
            .init("NSInverseRelationship", inverse ?? .null),
            .init("_NSInverseRelationshipName", writer.add(relationship.inverseName)),
            .init("NSMinCount", .integer(Int64(relationship.minimumCount))),
            .init("NSMaxCount", .integer(Int64(relationship.maximumCount))),
            .init("NSDeleteRule", .integer(Int64(relationship.deleteRule.rawValue))),
        ]
        writer.define(
            reference, as: ["NSRelationshipDescription"] + Self.propertyClasses,
            fields + self.fields(of: parts, in: entity))
    }

    // MARK: - Fetched properties

    private mutating func define(
        _ fetched: FetchedPropertyDescription, at reference: ArchiveValue, in entity: String
    ) -> Bool {
        let subject = "The fetched property “\(entity).\(fetched.name)”"
        guard let request = add(fetched.fetchRequest, called: subject) else {
            // Unreferenced, but every slot of an archive needs a value.
            writer.define(reference, as: ["NSNull", "NSObject"], [])
            return false
        }
        var parts = PropertyParts(name: fetched.name)
        parts.isOptional = fetched.isOptional
        parts.isTransient = true
        parts.isReadOnly = true
        parts.userInfo = fetched.userInfo
        let fields: [ArchiveValue.Entry] = [
            .init("NSFetchRequest", request),
            .init("_NSFetchRequestEntityName", writer.add(fetched.fetchRequest.entityName)),
        ]
        writer.define(
            reference, as: ["NSFetchedPropertyDescription"] + Self.propertyClasses,
            fields + self.fields(of: parts, in: entity))
        return true
    }
}

extension AttributeDescription {
    /// The class of its values in Core Data.
    fileprivate var valueClassName: String? {
        switch type {
        case .undefined, .composite: nil
        case .integer16, .integer32, .integer64, .double, .float, .boolean: "NSNumber"
        case .decimal: "NSDecimalNumber"
        case .string: "NSString"
        case .date: "NSDate"
        case .binary: "NSData"
        case .uuid: "NSUUID"
        case .uri: "NSURL"
        case .objectID: "NSManagedObjectID"
        case .transformable: customClassName
        }
    }
}

extension AttributeDerivation {
    /// The equivalent expression.
    fileprivate var expression: QueryExpression {
        switch form {
        case .count(let relationship): .function(.count, [.keyPath([relationship])])
        case .sum(let relationship, let attribute):
            .function(
                .sum, [.keyPath([relationship] + attribute.split(separator: ".").map(String.init))])
        case .copy(let keys): .keyPath(keys)
        case .text(.canonical, let keys): .function(.canonical, [.keyPath(keys)])
        case .text(.uppercase, let keys): .function(.uppercase, [.keyPath(keys)])
        case .text(.lowercase, let keys): .function(.lowercase, [.keyPath(keys)])
        case .now: .function(.now, [])
        }
    }
}
