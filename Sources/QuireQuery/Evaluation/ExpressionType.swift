import Foundation
package import QuireModel

/// The static type of an expression, derived from the model.
struct ExpressionType: Sendable {
    /// The kind of its values; `nil` if they are missing.
    var kind: ValueKind?
    /// Whether it is multi-valued.
    var isMany = false
    /// The key path from the tested object, if the values are read from it unmodified.
    var origin: QueryKeyPath?
    /// Whether it is an aggregate of a group's objects.
    var isGrouped = false

    /// The type of the values at a key path.
    init(at path: QueryKeyPath, isMany: Bool) {
        kind = path.kind
        self.isMany = isMany
        origin = path
    }

    /// The type of computed values.
    init(_ kind: ValueKind?, isGrouped: Bool = false) {
        self.kind = kind
        self.isGrouped = isGrouped
    }

    /// Whether values may be kept in external files.
    var isExternalCapable: Bool { origin?.slot?.isExternalCapable ?? false }
}

extension QueryFunction {
    /// The operand kind that an aggregate function requires; `nil` for any.
    var operandKind: ValueKind? {
        switch self {
        case .add, .subtract, .multiply, .divide, .modulus, .power, .squareRoot, .logarithm,
            .naturalLogarithm, .exponential, .absolute, .ceiling, .floor, .truncate, .randomBelow,
            .bitwiseAnd, .bitwiseOr, .bitwiseXor, .leftShift, .rightShift, .onesComplement, .sum,
            .average, .median, .standardDeviation:
            .number
        case .uppercase, .lowercase, .canonical, .length, .lastPathComponent: .text
        default: nil
        }
    }

    /// The result kind for argument kinds.
    package func kind(of arguments: [ValueKind?]) -> ValueKind? {
        switch self {
        case .add where arguments.contains(.date): .date
        case .subtract where arguments.first == .date:
            arguments.last == .date ? .number : .date
        case .uppercase, .lowercase, .canonical, .lastPathComponent: .text
        case .now: .date
        case .minimum, .maximum, .mode, .distinct, .union, .intersection, .difference, .element,
            .first, .last, .noIndex:
            arguments.compactMap { $0 }.first
        default: .number
        }
    }

    /// Whether it accepts arguments of these kinds; missing values are always accepted.
    func takes(_ arguments: [ValueKind?]) -> Bool {
        let kinds = arguments.compactMap { $0 }.filter { $0 != .any }
        switch self {
        case .add:
            return kinds.allSatisfy { $0 == .number }
                || kinds.filter { $0 == .date }.count == 1
                    && kinds.allSatisfy { $0 == .number || $0 == .date }
        case .subtract:
            return kinds.allSatisfy { $0 == .number || $0 == .date }
                && (arguments.first == .date || arguments.last != .date)
        case .minimum, .maximum, .mode: return !kinds.contains(.object)
        default: return operandKind.map { needed in kinds.allSatisfy { $0 == needed } } ?? true
        }
    }
}

extension QueryCast {
    /// The kind of its results.
    package var kind: ValueKind {
        switch self {
        case .date: .date
        case .uuid: .uuid
        case .uri, .string: .text
        case .binary: .bytes
        case .decimal, .number: .number
        case .objectID: .object
        }
    }
}

// MARK: - Kinds of values

/// The kinds of comparable values.
package enum ValueKind: Sendable, Hashable {
    case number, text, date, bytes, uuid, object
    /// A transient value of any type.
    case any

    /// The kind of an attribute's or a to-one relationship's values.
    init(of slot: Int, in entity: ResolvedEntity) {
        guard let type = entity.slots[slot].attribute?.type else {
            self = .object
            return
        }
        switch type {
        case .integer16, .integer32, .integer64, .double, .float, .decimal, .boolean:
            self = .number
        case .string, .uri: self = .text
        case .date: self = .date
        case .binary, .transformable: self = .bytes
        case .uuid: self = .uuid
        case .objectID: self = .object
        case .undefined, .composite: self = .any
        }
    }

    /// The kind of a constant; `nil` if it is missing.
    package init?(of constant: AttributeValue) {
        if ValueOrder.isMissing(constant) { return nil }
        switch constant {
        case .null: return nil
        case .integer, .double, .decimal, .boolean: self = .number
        case .string, .uri: self = .text
        case .date: self = .date
        case .binary, .external: self = .bytes
        case .uuid: self = .uuid
        case .objectID: self = .object
        case .composite: self = .any
        }
    }

    /// Whether values of both kinds can be compared.
    func isComparable(with other: ValueKind) -> Bool {
        self == other || self == .any || other == .any
    }

    /// The noun, as in “is …”.
    var noun: String {
        switch self {
        case .number: "a number"
        case .text: "text"
        case .date: "a date"
        case .bytes: "binary data"
        case .uuid: "a UUID"
        case .object: "an object"
        case .any: "values of any type"
        }
    }
}
