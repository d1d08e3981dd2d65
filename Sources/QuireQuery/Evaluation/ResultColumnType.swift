import Foundation
package import QuireModel

/// The type of a column's values, for restoring them from their stored form.
package enum ResultColumnType: Sendable, Hashable {
    case number, integer, double, boolean, decimal, string, uri, date, binary, uuid
    /// Binary values that may be in files.
    case externalCapable
    /// Objects of an entity, by its number, or of its sub-entities.
    case object(Int)

    /// The form of a slot's values; `nil` for values that are not stored.
    init?(_ slot: ResolvedEntity.Slot) {
        switch slot.storage {
        case .integer: self = .integer
        case .double: self = .double
        case .boolean: self = .boolean
        case .decimal: self = .decimal
        case .string: self = .string
        case .date: self = .date
        case .binary: self = slot.isExternalCapable ? .externalCapable : .binary
        case .uuid: self = .uuid
        case .uri: self = .uri
        case .reference, .transient: return nil
        }
    }

    /// The form for a value kind, if nothing else is known.
    init(_ kind: ValueKind?) {
        switch kind {
        case .text: self = .string
        case .date: self = .date
        case .bytes: self = .binary
        case .uuid: self = .uuid
        case .number, .object, .any, nil: self = .number
        }
    }

    /// The form of a constant.
    init(of constant: AttributeValue) {
        switch constant {
        case .integer, .null, .objectID, .composite: self = .number
        case .double: self = .double
        case .boolean: self = .boolean
        case .decimal: self = .decimal
        case .string: self = .string
        case .date: self = .date
        case .binary, .external: self = .binary
        case .uuid: self = .uuid
        case .uri: self = .uri
        }
    }

    /// The form required by a type, for values of a kind; `nil` if they cannot be converted.
    init?(_ type: AttributeType, of kind: ValueKind?) {
        switch (type, kind) {
        case (.integer16, .number?), (.integer32, .number?), (.integer64, .number?):
            self = .integer
        case (.double, .number?), (.float, .number?), (.double, .date?): self = .double
        case (.decimal, .number?): self = .decimal
        case (.boolean, .number?): self = .boolean
        case (.date, .date?), (.date, .number?): self = .date
        case (.string, .text?): self = .string
        case (.uri, .text?): self = .uri
        case (.binary, .bytes?), (.transformable, .bytes?): self = .binary
        case (.uuid, .uuid?): self = .uuid
        default: return nil
        }
    }

    /// Converts a stored value to this form; missing if it cannot be converted. Objects and external values are unchanged.
    package func value(of stored: AttributeValue) -> AttributeValue {
        switch (self, stored) {
        case (.number, .integer), (.number, .double), (.integer, .integer), (.double, .double),
            (.string, .string), (.binary, .binary), (.externalCapable, _), (.object, _):
            return stored
        case (.integer, .double(let number)):
            return Int64(exactly: number.rounded(.towardZero)).map { .integer($0) } ?? .null
        case (.double, .integer(let integer)): return .double(Double(integer))
        case (.boolean, .integer(let integer)): return .boolean(integer != 0)
        case (.boolean, .double(let number)): return .boolean(number != 0)
        case (.decimal, .integer(let integer)): return .decimal(Decimal(integer))
        case (.decimal, .double(let number)):
            return Decimal(shortestOf: number).map { .decimal($0) } ?? .null
        case (.date, .integer(let seconds)):
            return .date(Date(timeIntervalSinceReferenceDate: Double(seconds)))
        case (.date, .double(let seconds)):
            return .date(Date(timeIntervalSinceReferenceDate: seconds))
        case (.uri, .string(let text)): return URL(string: text).map { .uri($0) } ?? .null
        case (.binary, .string(let text)): return .binary(Data(text.utf8))
        case (.uuid, .binary(let bytes)) where bytes.count == 16:
            return .uuid(bytes.withUnsafeBytes { UUID(uuid: $0.loadUnaligned(as: uuid_t.self)) })
        default: return .null
        }
    }
}

extension Decimal {
    /// The decimal number of a floating-point number's shortest text; `nil` if it is not finite.
    package init?(shortestOf number: Double) {
        guard number.isFinite,
            let decimal = Decimal(
                string: number.description, locale: Locale(identifier: "en_US_POSIX"))
                ?? Decimal(numberText: number.description)
        else { return nil }
        self = decimal
    }
}

extension PredicateResolver {
    /// The form of a checked expression's result.
    mutating func form(of expression: QueryExpression) throws -> ResultColumnType {
        switch expression {
        case .constant(let value): return ResultColumnType(of: value)
        case .cast(_, let type):
            switch type {
            case .decimal: return .decimal
            case .uri: return .uri
            case .objectID: break
            default: return ResultColumnType(type.kind)
            }
        case .conditional(_, let first, let second):
            let (first, second) = (try form(of: first), try form(of: second))
            if first == second { return first }
            if [first, second].allSatisfy(\.isNumeric) {
                return [first, second].contains(.decimal) ? .decimal : .number
            }
        case .function(.distinct, let arguments): return try form(of: arguments[0])
        case .function(let function, let arguments):
            switch function {
            case .minimum, .maximum, .mode, .element, .first, .last, .noIndex:
                return try form(of: arguments[0])
            case .count, .length: return .integer
            default: break
            }
            let forms = try arguments.map { try form(of: $0) }
            if function.operandKind == .number, forms.contains(.decimal),
                forms.allSatisfy(\.isNumeric)
            {
                return .decimal
            }
        default: break
        }
        guard let type = try side(expression).type else { return .number }
        if let slot = type.origin?.slot, let form = ResultColumnType(slot), type.kind != nil {
            return expression.isPath ? form : ResultColumnType(type.kind)
        }
        if type.kind == .object, let entity = type.origin?.destination {
            return .object(entity.number)
        }
        return ResultColumnType(type.kind)
    }
}

extension ResultColumnType {
    var isNumeric: Bool {
        switch self {
        case .number, .integer, .double, .boolean, .decimal: true
        default: false
        }
    }
}

extension QueryExpression {
    /// Whether it is an unmodified key path.
    fileprivate var isPath: Bool {
        switch self {
        case .keyPath, .path, .variable, .evaluatedObject: true
        default: false
        }
    }
}
