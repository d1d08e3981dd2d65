public import Foundation

/// A type that an attribute of a typed class may have, optional or not: the integers, `Double`, `Float`, `Decimal`,
/// `String`, `Bool`, `Date`, `Data`, `UUID` and `URL`. Enumerations whose raw values are of one of these may be
/// used without conforming.
///
/// A custom type conforms by declaring its attribute types and its conversions:
///
/// ```swift
/// struct Price: AttributeRepresentable {
///     var cents: Int64
///     static let attributeTypes = [AttributeType.integer64]
///     static let missingValue = Price(cents: 0)
///     init(cents: Int64) { self.cents = cents }
///     init?(attributeValue value: AttributeValue) {
///         guard case .integer(let cents) = value else { return nil }
///         self.init(cents: cents)
///     }
///     var attributeValue: AttributeValue { .integer(cents) }
/// }
/// ```
public protocol AttributeRepresentable: SendableMetatype {
    /// The attribute types whose every value is representable. A model made from a class uses the first.
    static var attributeTypes: [AttributeType] { get }
    /// The value of a non-optional property without a value, and without a default value in class or model.
    static var missingValue: Self { get }
    /// A value that a computation is unlikely to return by chance; used to probe key paths.
    static var unlikelyValue: Self { get }
    /// The value of an object's property; `nil` if it is missing.
    static func value(of object: ManagedObject, at ordinal: Int) -> Self?
    /// Converts an attribute value; `nil` if it is of another type.
    init?(attributeValue value: AttributeValue)
    /// The attribute's representation of the value.
    var attributeValue: AttributeValue { get }
}

extension AttributeRepresentable {
    /// The value that is read from the slot of a property, or that a probe has.
    @inline(__always)
    fileprivate static func decoded(
        _ object: ManagedObject, _ ordinal: Int, _ read: (Int) -> Self?
    ) -> Self? {
        guard let slot = object.position(of: ordinal) else {
            return PropertyProbe.attribute(ordinal, of: object)
        }
        return read(slot)
    }

    /// ``missingValue`` by default, which weakens only the tests of key paths against computed properties.
    public static var unlikelyValue: Self { missingValue }

    /// Reads the attribute's value and converts it to this type.
    public static func value(of object: ManagedObject, at ordinal: Int) -> Self? {
        decoded(object, ordinal) { Self(attributeValue: object.value(at: $0)) }
    }
}

// MARK: - Integers

extension Int64: AttributeRepresentable {
    /// Integers of all widths.
    public static var attributeTypes: [AttributeType] { [.integer64, .integer32, .integer16] }
    /// 0.
    public static var missingValue: Int64 { 0 }
    /// Some number.
    public static var unlikelyValue: Int64 { 0x2E71_5B0C_93D4_A686 }

    /// The integer of a property.
    public static func value(of object: ManagedObject, at ordinal: Int) -> Int64? {
        decoded(object, ordinal) { object.integer(at: $0) }
    }

    /// Converts an integer.
    public init?(attributeValue value: AttributeValue) {
        guard case .integer(let integer) = value else { return nil }
        self = integer
    }

    /// An integer.
    @inlinable public var attributeValue: AttributeValue { .integer(self) }
}

extension Int: AttributeRepresentable {
    /// Integers of all widths.
    public static var attributeTypes: [AttributeType] { Int64.attributeTypes }
    /// 0.
    public static var missingValue: Int { 0 }
    /// Some number.
    public static var unlikelyValue: Int { Int(truncatingIfNeeded: Int64.unlikelyValue) }

    /// The integer of a property.
    public static func value(of object: ManagedObject, at ordinal: Int) -> Int? {
        decoded(object, ordinal) { slot in object.integer(at: slot).flatMap { Int(exactly: $0) } }
    }

    /// Converts an integer.
    public init?(attributeValue value: AttributeValue) {
        guard let integer = Int64(attributeValue: value) else { return nil }
        self.init(exactly: integer)
    }

    /// An integer.
    @inlinable public var attributeValue: AttributeValue { .integer(Int64(self)) }
}

extension Int32: AttributeRepresentable {
    /// Integers of up to 32 bits.
    public static var attributeTypes: [AttributeType] { [.integer32, .integer16] }
    /// 0.
    public static var missingValue: Int32 { 0 }
    /// Some number.
    public static var unlikelyValue: Int32 { 0x2E71_5B0C }

    /// The integer of a property; `nil` if it is out of range, which occurs only in a damaged store.
    public static func value(of object: ManagedObject, at ordinal: Int) -> Int32? {
        decoded(object, ordinal) { slot in object.integer(at: slot).flatMap { Int32(exactly: $0) } }
    }

    /// Converts an integer in range.
    public init?(attributeValue value: AttributeValue) {
        guard let integer = Int64(attributeValue: value) else { return nil }
        self.init(exactly: integer)
    }

    /// An integer.
    @inlinable public var attributeValue: AttributeValue { .integer(Int64(self)) }
}

extension Int16: AttributeRepresentable {
    /// Integers of 16 bits.
    public static var attributeTypes: [AttributeType] { [.integer16] }
    /// 0.
    public static var missingValue: Int16 { 0 }
    /// Some number.
    public static var unlikelyValue: Int16 { 0x2E71 }

    /// The integer of a property; `nil` if it is out of range, which occurs only in a damaged store.
    public static func value(of object: ManagedObject, at ordinal: Int) -> Int16? {
        decoded(object, ordinal) { slot in object.integer(at: slot).flatMap { Int16(exactly: $0) } }
    }

    /// Converts an integer in range.
    public init?(attributeValue value: AttributeValue) {
        guard let integer = Int64(attributeValue: value) else { return nil }
        self.init(exactly: integer)
    }

    /// An integer.
    @inlinable public var attributeValue: AttributeValue { .integer(Int64(self)) }
}

// MARK: - Other types

// Types with their own representation in rows are read directly, without an AttributeValue in between.

extension Double: AttributeRepresentable {
    /// Floating-point numbers of both widths.
    public static var attributeTypes: [AttributeType] { [.double, .float] }
    /// 0.
    public static var missingValue: Double { 0 }
    /// Some number.
    public static var unlikelyValue: Double { -7.318e77 }

    /// The number of a property.
    public static func value(of object: ManagedObject, at ordinal: Int) -> Double? {
        decoded(object, ordinal) { object.double(at: $0) }
    }

    /// Converts a floating-point number.
    public init?(attributeValue value: AttributeValue) {
        guard case .double(let double) = value else { return nil }
        self = double
    }

    /// A floating-point number.
    @inlinable public var attributeValue: AttributeValue { .double(self) }
}

extension Float: AttributeRepresentable {
    /// Floating-point numbers of 32 bits.
    public static var attributeTypes: [AttributeType] { [.float] }
    /// 0.
    public static var missingValue: Float { 0 }
    /// Some number.
    public static var unlikelyValue: Float { -7.318e29 }

    /// The number of a property.
    public static func value(of object: ManagedObject, at ordinal: Int) -> Float? {
        decoded(object, ordinal) { slot in object.double(at: slot).map { Float($0) } }
    }

    /// Converts a floating-point number, rounded.
    public init?(attributeValue value: AttributeValue) {
        guard case .double(let double) = value else { return nil }
        self.init(double)
    }

    /// A floating-point number.
    @inlinable public var attributeValue: AttributeValue { .double(Double(self)) }
}

extension Bool: AttributeRepresentable {
    /// Booleans.
    public static var attributeTypes: [AttributeType] { [.boolean] }
    /// False.
    public static var missingValue: Bool { false }
    /// True, the less usual value.
    public static var unlikelyValue: Bool { true }

    /// The Boolean of a property.
    public static func value(of object: ManagedObject, at ordinal: Int) -> Bool? {
        decoded(object, ordinal) { object.boolean(at: $0) }
    }

    /// Converts a Boolean.
    public init?(attributeValue value: AttributeValue) {
        guard case .boolean(let boolean) = value else { return nil }
        self = boolean
    }

    /// A Boolean.
    @inlinable public var attributeValue: AttributeValue { .boolean(self) }
}

extension String: AttributeRepresentable {
    /// Texts.
    public static var attributeTypes: [AttributeType] { [.string] }
    /// The empty text.
    public static var missingValue: String { "" }
    /// Some text that changes with its case, its whitespace and its diacritics.
    public static var unlikelyValue: String { " Qúire’s  pröbe \u{1}x" }

    /// The text of a property.
    public static func value(of object: ManagedObject, at ordinal: Int) -> String? {
        decoded(object, ordinal) { object.string(at: $0) }
    }

    /// Converts a string.
    public init?(attributeValue value: AttributeValue) {
        guard case .string(let string) = value else { return nil }
        self = string
    }

    /// A text.
    @inlinable public var attributeValue: AttributeValue { .string(self) }
}

extension Date: AttributeRepresentable {
    /// Dates.
    public static var attributeTypes: [AttributeType] { [.date] }
    /// The reference date, the beginning of 2001.
    public static var missingValue: Date { Date(timeIntervalSinceReferenceDate: 0) }
    /// Some date.
    public static var unlikelyValue: Date { Date(timeIntervalSinceReferenceDate: -731_846_271.625) }

    /// The date of a property.
    public static func value(of object: ManagedObject, at ordinal: Int) -> Date? {
        decoded(object, ordinal) { object.date(at: $0) }
    }

    /// Converts a date.
    public init?(attributeValue value: AttributeValue) {
        guard case .date(let date) = value else { return nil }
        self = date
    }

    /// A date.
    @inlinable public var attributeValue: AttributeValue { .date(self) }
}

extension UUID: AttributeRepresentable {
    /// UUIDs.
    public static var attributeTypes: [AttributeType] { [.uuid] }
    /// The UUID of zeros.
    public static var missingValue: UUID {
        UUID(uuid: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))
    }
    /// Some UUID.
    public static var unlikelyValue: UUID {
        UUID(uuid: (7, 3, 1, 8, 4, 6, 2, 7, 1, 6, 2, 5, 9, 9, 1, 3))
    }

    /// The UUID of a property.
    public static func value(of object: ManagedObject, at ordinal: Int) -> UUID? {
        decoded(object, ordinal) { object.uuid(at: $0) }
    }

    /// Converts a UUID.
    public init?(attributeValue value: AttributeValue) {
        guard case .uuid(let uuid) = value else { return nil }
        self = uuid
    }

    /// A UUID.
    @inlinable public var attributeValue: AttributeValue { .uuid(self) }
}

extension Decimal: AttributeRepresentable {
    /// Decimal numbers.
    public static var attributeTypes: [AttributeType] { [.decimal] }
    /// 0.
    public static var missingValue: Decimal { 0 }
    /// Some number.
    public static var unlikelyValue: Decimal { Decimal(-7_318_462) / 1000 }

    /// Converts a decimal number.
    public init?(attributeValue value: AttributeValue) {
        guard case .decimal(let decimal) = value else { return nil }
        self = decimal
    }

    /// A decimal number.
    @inlinable public var attributeValue: AttributeValue { .decimal(self) }
}

extension Data: AttributeRepresentable {
    /// Binary values, and transformable ones before their transformer.
    public static var attributeTypes: [AttributeType] { [.binary, .transformable] }
    /// No bytes.
    public static var missingValue: Data { Data() }
    /// Some bytes.
    public static var unlikelyValue: Data { Data([7, 3, 1, 8, 4, 6, 2, 7, 1, 6, 2, 5]) }

    /// Converts a binary value.
    public init?(attributeValue value: AttributeValue) {
        guard case .binary(let data) = value else { return nil }
        self = data
    }

    /// A binary value.
    @inlinable public var attributeValue: AttributeValue { .binary(self) }
}

extension URL: AttributeRepresentable {
    /// URIs.
    public static var attributeTypes: [AttributeType] { [.uri] }
    /// The URI `about:blank`.
    public static var missingValue: URL { URL(string: "about:blank") ?? URL(fileURLWithPath: "/") }
    /// Some URI.
    public static var unlikelyValue: URL {
        URL(string: "quire-probe://X/7318?q=4627#162") ?? missingValue
    }

    /// Converts a URI.
    public init?(attributeValue value: AttributeValue) {
        guard case .uri(let uri) = value else { return nil }
        self = uri
    }

    /// A URI.
    @inlinable public var attributeValue: AttributeValue { .uri(self) }
}
