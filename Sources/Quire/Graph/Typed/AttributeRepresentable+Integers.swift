extension Int64: AttributeRepresentable {
    /// Integers of all widths.
    public static var attributeTypes: [AttributeType] { [.integer64, .integer32, .integer16] }
    /// 0.
    public static var missingValue: Int64 { 0 }
    /// Some number.
    public static var unlikelyValue: Int64 { 0x2E71_5B0C_93D4_A686 }

    /// The integer of a property.
    public static func value(of object: ManagedObject, at ordinal: Int) -> Int64? {
        guard let slot = object.position(of: ordinal) else {
            return PropertyProbe.attribute(ordinal, of: object)
        }
        return object.integer(at: slot)
    }

    /// Takes an integer.
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
        guard let slot = object.position(of: ordinal) else {
            return PropertyProbe.attribute(ordinal, of: object)
        }
        return object.integer(at: slot).flatMap { Int(exactly: $0) }
    }

    /// Takes an integer.
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

    /// The integer of a property; `nil` if it does not fit, which only a damaged store has.
    public static func value(of object: ManagedObject, at ordinal: Int) -> Int32? {
        guard let slot = object.position(of: ordinal) else {
            return PropertyProbe.attribute(ordinal, of: object)
        }
        return object.integer(at: slot).flatMap { Int32(exactly: $0) }
    }

    /// Takes an integer that fits.
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

    /// The integer of a property; `nil` if it does not fit, which only a damaged store has.
    public static func value(of object: ManagedObject, at ordinal: Int) -> Int16? {
        guard let slot = object.position(of: ordinal) else {
            return PropertyProbe.attribute(ordinal, of: object)
        }
        return object.integer(at: slot).flatMap { Int16(exactly: $0) }
    }

    /// Takes an integer that fits.
    public init?(attributeValue value: AttributeValue) {
        guard let integer = Int64(attributeValue: value) else { return nil }
        self.init(exactly: integer)
    }

    /// An integer.
    @inlinable public var attributeValue: AttributeValue { .integer(Int64(self)) }
}
