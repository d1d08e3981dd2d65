import Foundation
internal import QuireSystem

extension EntityLayout {
    /// A place for one value: an attribute, an element of a composite attribute, or a to-one relationship.
    ///
    /// A class, because a description has many parts that a copy of a structure would count references to.
    public final class Slot: Sendable {
        /// The form in which rows keep a value.
        public enum Storage: UInt8, Sendable {
            case integer, double, boolean, decimal, string, date, binary, uuid, uri, reference
            /// In memory only, of any type.
            case transient
        }

        /// The slot's position in ``EntityLayout/slots``.
        public let index: Int
        /// The property's name; for an element of a composite, the names joined with dots.
        public let name: String
        /// The form of the value.
        public let storage: Storage
        /// The attribute, or the composite's element; `nil` for a to-one relationship.
        public let attribute: AttributeDescription?
        /// The position in ``EntityLayout/relationships`` of a to-one relationship.
        public let relationshipIndex: Int?
        /// The number of the entity that declares the property.
        public let ownerNumber: Int
        /// Whether stores keep the value.
        public let isStored: Bool
        /// Whether the binary value may be kept in a file of its own.
        public let isExternalCapable: Bool
        /// Whether the value is derived from others, so that it cannot be set.
        public let isDerived: Bool
        /// The attribute's type; `nil` if it cannot be set.
        private let type: AttributeType?
        /// Whether a value of the attribute's type, or none, can break a rule of the attribute.
        package let hasRules: Bool

        init(
            index: Int, name: String, storage: Storage, attribute: AttributeDescription?,
            relationshipIndex: Int?, ownerNumber: Int, isStored: Bool, isExternalCapable: Bool
        ) {
            self.index = index
            self.name = name
            self.storage = storage
            self.attribute = attribute
            self.relationshipIndex = relationshipIndex
            self.ownerNumber = ownerNumber
            self.isStored = isStored
            self.isExternalCapable = isExternalCapable
            isDerived = attribute?.derivationExpression != nil
            type = isDerived ? nil : attribute?.type
            hasRules =
                attribute.map {
                    !$0.isOptional || !$0.minimum.isNull || !$0.maximum.isNull
                        || $0.regularExpression != nil || !$0.validationPredicates.isEmpty
                } ?? false
        }

        /// The value in the form that the attribute keeps; see ``AttributeDescription/coerce(_:entity:)``,
        /// which is asked only about what is not plainly so already.
        ///
        /// - Throws: ``QuireError`` with code `invalidValue` if the value does not fit the type, or the slot is
        ///   derived or a relationship's.
        @inline(__always)
        package func coerce(_ value: AttributeValue, in entity: EntityLayout) throws
            -> AttributeValue
        {
            switch (type, value) {
            case (.string, .string), (.integer64, .integer), (.boolean, .boolean), (.uuid, .uuid):
                return value
            case (.double, .double(let number)) where !number.isNaN: return value
            case (.date, .date(let date))
            where abs(date.timeIntervalSinceReferenceDate) < DateText.greatestInterval:
                return value
            default: return try coerceOther(value, in: entity)
            }
        }

        @inline(never)
        private func coerceOther(
            _ value: AttributeValue, in entity: EntityLayout
        ) throws -> AttributeValue {
            if let expression = attribute?.derivationExpression {
                throw QuireError(
                    .invalidValue,
                    "“\(name)” of \(entity.name) is derived from “\(expression)” and cannot be set; change that instead.",
                    subject: .init(entity: entity.name, property: name))
            }
            if let attribute { return try attribute.coerce(value, entity: entity.name) }
            throw QuireError(
                .invalidValue,
                "“\(name)” of \(entity.name) is a relationship; set an object.",
                subject: .init(entity: entity.name, property: name))
        }
    }
}

extension EntityLayout {
    /// The slot of an attribute, of a composite's element (`location.latitude`), or of a to-one relationship.
    public func slot(named name: String) -> Int? {
        switch properties[name] {
        case .attribute(let slot): slot
        case .relationship(let index): relationships[index].slot
        default: nil
        }
    }
}

extension EntityLayout.Slot {
    /// Whether the value is the time of the last save.
    package var isDerivedFromTime: Bool {
        guard let expression = attribute?.derivationExpression else { return false }
        return (try? AttributeDerivation(expression))?.form == .now
    }
}
