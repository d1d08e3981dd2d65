public import Foundation
internal import QuireSystem

/// The value of an attribute or a to-one relationship, as exchanged between graph and stores.
///
/// Integers of all widths and dates of all precisions share a case; the attribute's ``AttributeType`` determines the range.
/// Literals are supported: `["title": "Emma", "year": 1815]` as `[String: AttributeValue]`.
public enum AttributeValue: Sendable, Hashable {
    /// Null.
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
    /// The bytes of a binary attribute, or of a transformable one before transformation.
    case binary(Data)
    /// Bytes not in memory: of a binary attribute that allows external storage. Reading an attribute by key returns
    /// ``binary(_:)`` instead; see ``ManagedObject/externalData(forKey:)``.
    case external(ExternalData)
    /// A universally unique identifier.
    case uuid(UUID)
    /// A uniform resource identifier.
    case uri(URL)
    /// The identifier of an object: the value of a to-one relationship.
    case objectID(ManagedObjectID)
    /// The elements of a composite attribute by name.
    case composite([String: AttributeValue])

    /// Whether the value is null.
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
    /// Null.
    public init(nilLiteral: ()) { self = .null }
}

// MARK: - Composite values

extension [String: AttributeValue] {
    /// The element of a composite value at a path; ``AttributeValue/null`` if it is missing.
    package func element(at path: ArraySlice<Substring>) -> AttributeValue {
        guard let first = path.first, let value = self[String(first)] else { return .null }
        if path.count == 1 { return value }
        if case .composite(let inner) = value { return inner.element(at: path.dropFirst()) }
        return .null
    }
}

extension ResolvedEntity {
    /// The values of a composite, one for each slot of a composite attribute.
    ///
    /// - Throws: ``QuireError`` with code `invalidValue` if the value is not a composite.
    package func elements(
        of value: AttributeValue, forKey key: String, in slots: Range<Int>
    ) throws -> [(slot: Int, value: AttributeValue)] {
        guard case .composite(let elements) = value.isNull ? .composite([:]) : value else {
            throw QuireError(
                .invalidValue, "“\(key)” of \(name) must be a composite value.",
                entity: name, property: key)
        }
        return slots.map { slot in
            let path = self.slots[slot].name.dropFirst(key.count + 1).split(separator: ".")
            return (slot, elements.element(at: path[...]))
        }
    }
}

// MARK: - Texts

/// The text form of values, independent of locale and time zone.
///
/// | type | text written | also read |
/// |---|---|---|
/// | integers | `-12` | `+12` |
/// | decimal | `1234.5`, exactly | `1.2345e3`; up to 38 digits |
/// | double, float | the shortest that reads back the same, `0.1`, `1e-07`, `inf` | `1`, `.5`, `infinity` |
/// | boolean | `true`, `false` | `yes`, `no`, `1`, `0`, in any case |
/// | date | `2026-11-21T09:15:00.25Z`, exactly, fraction only if there is one | `2026-11-21`, `2026-11-21 09:15`, `…+01:00`; without an offset UTC is meant |
/// | binary, transformable | base64 | base64 with line breaks |
/// | UUID | upper case | lower case |
/// | URI | as it is | |
/// | text | as it is | |
///
/// Spaces around a text are ignored, except where the value is a text itself.
extension AttributeValue {
    /// Parses a value of a type.
    ///
    /// ```swift
    /// try AttributeValue(parsing: "2026-11-21", as: .date)
    /// ```
    ///
    /// - Throws: ``QuireError`` with code `invalidValue` if the text is not a valid value of the type or is out of its
    ///   range. Object identifiers and composites cannot be parsed without a store.
    public init(parsing text: String, as type: AttributeType) throws {
        try self.init(parsing: text, as: type, takesAllForms: false)
    }

    /// Parses a number in a notation with a single number type, such as JSON: `1.0` and `1e3` are integers, too.
    ///
    /// - Throws: As ``init(parsing:as:)``.
    package init(parsingNumber text: String, as type: AttributeType) throws {
        try self.init(parsing: text, as: type, takesAllForms: true)
    }

    private init(parsing text: String, as type: AttributeType, takesAllForms: Bool) throws {
        if type == .string || type == .undefined {
            self = .string(text)
            return
        }
        let trimmed = Self.trimmed(text)
        let value: AttributeValue? =
            switch type {
            case .integer16: try Self.integer(Int16.self, trimmed, as: type, takesAllForms)
            case .integer32: try Self.integer(Int32.self, trimmed, as: type, takesAllForms)
            case .integer64: try Self.integer(Int64.self, trimmed, as: type, takesAllForms)
            case .decimal: try Self.decimal(trimmed)
            case .double: try Self.floating(trimmed, as: type) { Double($0) }
            case .float: try Self.floating(trimmed, as: type) { Float($0).map(Double.init) }
            case .boolean:
                Self.boolean(takesAllForms ? NumberFormat(trimmed)?.wholeDigits ?? "" : trimmed)
            case .date: DateText.date(of: trimmed).map(AttributeValue.date)
            case .binary, .transformable: Self.binary(trimmed)
            case .uuid: UUID(uuidString: trimmed).map(AttributeValue.uuid)
            case .uri: Self.uri(trimmed)
            case .string, .undefined, .objectID, .composite: nil
            }
        guard let value else { throw Self.unreadable(text, as: type) }
        self = value
    }

    /// The value's text in the form that ``init(parsing:as:)`` reads back; `nil` for null and for values without a text: a
    /// composite, a NaN date, or a value in an unreadable file.
    ///
    /// A value of another type, which no object contains, is formatted by its actual type.
    public func text(as type: AttributeType) -> String? {
        switch self {
        case .null, .composite: nil
        case .integer(let integer): String(integer)
        case .double(let number): type == .float ? Float(number).description : number.description
        case .boolean(let truth): truth ? "true" : "false"
        case .decimal(let decimal): decimal.isNaN ? nil : decimal.description
        case .string(let text): text
        case .date(let date): DateText.text(of: date)
        case .binary(let data): data.base64EncodedString()
        case .external(let data): (try? data.data())?.base64EncodedString()
        case .uuid(let uuid): uuid.uuidString
        case .uri(let uri): uri.absoluteString
        case .objectID(let identifier): identifier.uriRepresentation
        }
    }

    // MARK: - Reading

    private static func trimmed(_ text: String) -> String {
        // Usually there is nothing to trim, which a check by bytes finds fast.
        let isInk = { (byte: UInt8) in byte > 0x20 && byte < 0x7F }
        if let first = text.utf8.first, let last = text.utf8.last, isInk(first), isInk(last) {
            return text
        }
        return text.trimmingCharacters(in: .whitespacesAndNewlines)
    }

    private static func integer<Width: FixedWidthInteger>(
        _ width: Width.Type, _ text: String, as type: AttributeType, _ takesAllForms: Bool
    ) throws -> AttributeValue? {
        if let value = Width(text) { return .integer(Int64(value)) }
        guard let form = NumberFormat(text), form.isWhole,
            takesAllForms || !text.utf8.contains(where: { ".eE".utf8.contains($0) })
        else { return nil }
        if let value = form.wholeDigits.flatMap({ Width($0) }) { return .integer(Int64(value)) }
        throw QuireError(
            .invalidValue,
            "\(shown(text)) is out of the range of a \(type.title), \(Width.min) to \(Width.max).")
    }

    private static func floating(
        _ text: String, as type: AttributeType, _ parse: (String) -> Double?
    ) throws -> AttributeValue? {
        switch text.lowercased() {
        case "inf", "+inf", "infinity", "+infinity": return .double(.infinity)
        case "-inf", "-infinity": return .double(-.infinity)
        default: break
        }
        guard NumberFormat(text) != nil, let value = parse(text) else { return nil }
        guard value.isFinite else {
            throw QuireError(
                .invalidValue, "\(shown(text)) is out of the range of a \(type.title).")
        }
        return .double(value)
    }

    private static func decimal(_ text: String) throws -> AttributeValue? {
        guard let form = NumberFormat(text) else { return nil }
        guard form.significantDigits <= 38 else {
            throw QuireError(
                .invalidValue,
                "\(shown(text)) has more than 38 digits, the maximum of a decimal number.")
        }
        guard let value = form.decimal else {
            throw QuireError(
                .invalidValue, "\(shown(text)) is out of the range of a decimal number.")
        }
        return .decimal(value)
    }

    private static func boolean(_ text: String) -> AttributeValue? {
        switch text.lowercased() {
        case "true", "yes", "1": .boolean(true)
        case "false", "no", "0": .boolean(false)
        default: nil
        }
    }

    private static func binary(_ text: String) -> AttributeValue? {
        let joined = text.contains(where: \.isWhitespace) ? text.filter { !$0.isWhitespace } : text
        return Data(base64Encoded: joined).map(AttributeValue.binary)
    }

    private static func uri(_ text: String) -> AttributeValue? {
        // Invalid URI characters are rejected, not replaced: otherwise the URI would not round-trip.
        URL(string: text, encodingInvalidCharacters: false).map(AttributeValue.uri)
    }

    private static func unreadable(_ text: String, as type: AttributeType) -> QuireError {
        let expected =
            switch type {
            case .integer16, .integer32, .integer64: "an integer like 12"
            case .decimal, .double, .float: "a number like 1.5"
            case .boolean: "true or false"
            case .date: "a date like 2026-11-21 or 2026-11-21T09:15:00Z"
            case .binary, .transformable: "base64"
            case .uuid: "a UUID like 5B7E8A1C-9F0D-4C52-8E6B-3A1D2C4F6E70"
            case .uri: "a URI like https://example.org/"
            case .objectID: "readable without a store"
            case .composite: "a composite value; specify its elements one by one"
            case .string, .undefined: "a text"
            }
        return QuireError(.invalidValue, "\(shown(text)) is not \(expected).")
    }

    /// A text in quotation marks, truncated if it is long.
    static func shown(_ text: String) -> String {
        text.count > 60 ? "“\(text.prefix(57))…”" : "“\(text)”"
    }

    fileprivate static func isDigit(_ character: UInt8) -> Bool {
        character >= UInt8(ascii: "0") && character <= UInt8(ascii: "9")
    }
}

extension AttributeValue {
    /// The value formatted for error messages.
    package var display: String {
        switch self {
        case .null: "nothing"
        case .string(let text): Self.shown(text)
        case .composite(let elements): "a composite of \(elements.count) elements"
        case .binary(let data): "\(data.count) bytes"
        case .external(let data): "\(data.size) bytes"
        case .double(let number): number.description
        default: text(as: .undefined) ?? "not a number"
        }
    }
}

extension Decimal {
    /// The value of a number’s text; `nil` if it is not a number or out of range. `init(string:)` refuses exponents above
    /// 127, such as that of 1e128, which a floating-point number close to the greatest decimal numbers is printed with.
    package init?(numberText text: String) {
        guard let decimal = NumberFormat(text)?.decimal else { return nil }
        self = decimal
    }
}

/// Splits a number's text into sign, digits with a point, and exponent, and rejects anything else. The standard library and
/// Foundation accept more, or stop at the first unknown character.
private struct NumberFormat {
    private let isNegative: Bool
    /// The digits without zeros at either end.
    private let digits: [UInt8]
    var significantDigits: Int { digits.count }
    /// The power of ten that scales the significant digits, read as an integer.
    var exponent: Int

    init?(_ text: String) {
        var rest = Substring(text).utf8
        isNegative = rest.first == UInt8(ascii: "-")
        if isNegative || rest.first == UInt8(ascii: "+") { rest = rest.dropFirst() }
        let whole = rest.prefix(while: AttributeValue.isDigit)
        rest = rest.dropFirst(whole.count)
        var fraction = rest.prefix(0)
        if rest.first == UInt8(ascii: ".") {
            fraction = rest.dropFirst().prefix(while: AttributeValue.isDigit)
            rest = rest.dropFirst(fraction.count + 1)
        }
        if whole.isEmpty && fraction.isEmpty { return nil }
        var power = 0
        if let mark = rest.first, mark == UInt8(ascii: "e") || mark == UInt8(ascii: "E") {
            rest = rest.dropFirst()
            let isSmall = rest.first == UInt8(ascii: "-")
            if isSmall || rest.first == UInt8(ascii: "+") { rest = rest.dropFirst() }
            let given = rest.prefix(while: AttributeValue.isDigit)
            if given.isEmpty { return nil }
            power = min(100_000, Int(String(decoding: given, as: UTF8.self)) ?? .max)
            if isSmall { power = -power }
            rest = rest.dropFirst(given.count)
        }
        guard rest.isEmpty else { return nil }
        let zero = UInt8(ascii: "0")
        let significant = (Array(whole) + Array(fraction)).drop(while: { $0 == zero })
        let trailing = significant.reversed().prefix(while: { $0 == zero }).count
        digits = Array(significant.dropLast(trailing))
        exponent = digits.isEmpty ? 0 : power - fraction.count + trailing
    }

    /// The greatest decimal number’s digits; its exponent is 127.
    private static let greatestDecimal = "340282366920938463463374607431768211455"

    /// The decimal number; `nil` if it is out of range. An exponent above 127 becomes digits: 1e128 is 10e127.
    var decimal: Decimal? {
        if digits.isEmpty { return 0 }
        let zeros = max(0, exponent - 127)
        guard exponent >= -128, digits.count + zeros <= Self.greatestDecimal.count else {
            return nil
        }
        let text = String(decoding: digits, as: UTF8.self) + String(repeating: "0", count: zeros)
        if text.count == Self.greatestDecimal.count, text > Self.greatestDecimal { return nil }
        guard
            let value = Decimal(
                string: "\(isNegative ? "-" : "")\(text)e\(exponent - zeros)",
                locale: Locale(identifier: "en_US_POSIX")), !value.isNaN
        else { return nil }
        return value
    }

    /// Whether the fraction is zero.
    var isWhole: Bool { exponent >= 0 }

    /// A whole number with its sign, without point and exponent; `nil` if it has a fraction, or more digits than any
    /// integer.
    var wholeDigits: String? {
        guard isWhole, digits.count + exponent <= 20 else { return nil }
        if digits.isEmpty { return "0" }
        return (isNegative ? "-" : "") + String(decoding: digits, as: UTF8.self)
            + String(repeating: "0", count: exponent)
    }
}
