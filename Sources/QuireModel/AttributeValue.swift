public import Foundation

/// The value of an attribute, or of a to-one relationship, as the graph and the stores pass it on.
///
/// Integers of all widths and dates of all precisions share a case; the attribute's ``AttributeType`` says
/// what may be in it. A literal makes one: `book["title"] = "Emma"`, `book["year"] = 1815`.
public enum AttributeValue: Sendable, Hashable {
    /// No value.
    case null
    /// An integer of 16, 32 or 64 bits.
    case integer(Int64)
    /// A floating-point number.
    case double(Double)
    /// True or false.
    case boolean(Bool)
    /// A decimal number.
    case decimal(Decimal)
    /// A text.
    case string(String)
    /// A point in time.
    case date(Date)
    /// Bytes: of a binary attribute, or of a transformable one before its transformer.
    case binary(Data)
    /// Bytes that are not in memory: of a binary attribute that allows external storage. What reads an attribute by its key
    /// gives ``binary(_:)`` instead; see ``ManagedObject/externalData(forKey:)``.
    case external(ExternalData)
    /// A universally unique identifier.
    case uuid(UUID)
    /// A uniform resource identifier.
    case uri(URL)
    /// The identifier of an object: the value of a to-one relationship.
    case objectID(ManagedObjectID)
    /// The elements of a composite attribute by name.
    case composite([String: AttributeValue])

    /// Whether there is no value.
    @inlinable public var isNull: Bool {
        if case .null = self { return true }
        return false
    }
}

extension AttributeValue: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral,
    ExpressibleByFloatLiteral, ExpressibleByBooleanLiteral, ExpressibleByNilLiteral
{
    /// A text.
    public init(stringLiteral value: String) { self = .string(value) }
    /// An integer.
    public init(integerLiteral value: Int64) { self = .integer(value) }
    /// A floating-point number.
    public init(floatLiteral value: Double) { self = .double(value) }
    /// True or false.
    public init(booleanLiteral value: Bool) { self = .boolean(value) }
    /// No value.
    public init(nilLiteral: ()) { self = .null }
}
