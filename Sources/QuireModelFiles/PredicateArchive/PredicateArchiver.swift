import Foundation
package import QuireModel
internal import QuireQuery
internal import QuireSystem

/// Encodes predicates and expressions as Foundation's keyed archives.
///
/// Only forms known from Foundation's archives are written, or equivalents in these forms: `BETWEEN` as two comparisons,
/// `BEGINSWITH` of a plain text as `LIKE`. Others are rejected.
struct PredicateArchiver {
    /// Adds a predicate.
    ///
    /// - Throws: ``QuireError`` with code `unsupported` if it has no known archive form.
    func add(
        _ predicate: QueryPredicate, to writer: inout KeyedArchiveWriter
    ) throws -> ArchiveValue {
        switch predicate {
        case .constant(let truth):
            return writer.add(
                [truth ? "NSTruePredicate" : "NSFalsePredicate", "NSPredicate", "NSObject"], [])
        case .and(let parts): return try add(parts, type: 1, to: &writer)
        case .or(let parts): return try add(parts, type: 2, to: &writer)
        case .not(let inner): return try add([inner], type: 0, to: &writer)
        case .comparison(let comparison): return try add(comparison, to: &writer)
        }
    }

    private func add(
        _ parts: [QueryPredicate], type: Int64, to writer: inout KeyedArchiveWriter
    ) throws -> ArchiveValue {
        var elements: [ArchiveValue] = []
        for part in parts { elements.append(try add(part, to: &writer)) }
        let list = writer.add(array: elements)
        return writer.add(
            ["NSCompoundPredicate", "NSPredicate", "NSObject"],
            [.init("NSCompoundPredicateType", .integer(type)), .init("NSSubpredicates", list)])
    }

    // MARK: - Comparisons

    private func add(
        _ comparison: QueryComparison, to writer: inout KeyedArchiveWriter
    ) throws -> ArchiveValue {
        if let equivalent = Self.equivalent(to: comparison) {
            return try add(equivalent, to: &writer)
        }
        let operation = try operation(of: comparison)
        let left = try add(comparison.left, to: &writer)
        let right = try add(comparison.right, to: &writer)
        let modifier: Int64 =
            switch comparison.modifier {
            case .direct: 0
            case .all: 1
            case .any: 2
            }
        let type: [ArchiveValue.Entry] = [
            .init("NSModifier", .integer(modifier)),
            .init("NSOperatorType", .integer(operation.type)),
        ]
        let description = writer.add(
            [operation.className] + operation.superclasses + ["NSPredicateOperator", "NSObject"],
            type + operation.fields(Int64(comparison.options.rawValue)))
        return writer.add(
            ["NSComparisonPredicate", "NSPredicate", "NSObject"],
            [
                .init("NSLeftExpression", left), .init("NSRightExpression", right),
                .init("NSPredicateOperator", description),
            ])
    }

    private struct Operation {
        var className: String
        var type: Int64
        var superclasses: [String] = []
        var fields: (_ options: Int64) -> [ArchiveValue.Entry]
    }

    private func operation(of comparison: QueryComparison) throws -> Operation {
        func order(_ type: Int64) -> Operation {
            Operation(className: "NSComparisonPredicateOperator", type: type) {
                [.init("NSVariant", .integer(type)), .init("NSOptions", .integer($0))]
            }
        }
        func equality(_ type: Int64, negated: Bool) -> Operation {
            Operation(className: "NSEqualityPredicateOperator", type: type) {
                [.init("NSNegate", .boolean(negated)), .init("NSOptions", .integer($0))]
            }
        }
        func flagged(_ name: String, _ type: Int64, _ superclasses: [String] = []) -> Operation {
            Operation(className: name, type: type, superclasses: superclasses) {
                [.init("NSFlags", .integer($0))]
            }
        }
        switch comparison.operator {
        case .less: return order(0)
        case .lessOrEqual: return order(1)
        case .greater: return order(2)
        case .greaterOrEqual: return order(3)
        case .equal: return equality(4, negated: false)
        case .notEqual: return equality(5, negated: true)
        case .matches:
            // By analogy with LIKE, whose class is a subclass of this one.
            return flagged("NSMatchingPredicateOperator", 6, ["NSStringPredicateOperator"])
        case .like:
            return flagged(
                "NSLikePredicateOperator", 7,
                ["NSMatchingPredicateOperator", "NSStringPredicateOperator"])
        case .in: return flagged("NSInPredicateOperator", 10)
        case .contains: return flagged("NSInPredicateOperator", 99)
        case .between: throw refusal("BETWEEN without exactly two values")
        case .beginsWith: throw refusal("BEGINSWITH with anything but plain text")
        case .endsWith: throw refusal("ENDSWITH with anything but plain text")
        case .matchesText: throw refusal("MATCHES TEXT, a Quire extension,")
        }
    }

    /// The equivalent in operators with a known archive form.
    private static func equivalent(to comparison: QueryComparison) -> QueryPredicate? {
        var other = comparison
        switch (comparison.operator, comparison.right) {
        case (.between, .collection(let bounds))
        where bounds.count == 2 && comparison.modifier == .direct:
            other.operator = .greaterOrEqual
            other.right = bounds[0]
            var upper = comparison
            upper.operator = .lessOrEqual
            upper.right = bounds[1]
            return .and([.comparison(other), .comparison(upper)])
        case (.beginsWith, .constant(.string(let text))) where isPlain(text):
            other.right = .constant(.string(text + "*"))
        case (.endsWith, .constant(.string(let text))) where isPlain(text):
            other.right = .constant(.string("*" + text))
        default: return nil
        }
        other.operator = .like
        return .comparison(other)
    }

    private static func isPlain(_ text: String) -> Bool {
        !text.contains { "*?\\".contains($0) }
    }

    private func refusal(_ what: String) -> QuireError {
        QuireError(.unsupported, "\(what) cannot be written into a compiled model.")
    }
}

// MARK: - Expressions

extension PredicateArchiver {
    /// Adds an expression.
    ///
    /// - Throws: ``QuireError`` with code `unsupported` if it has no known archive form.
    func add(
        _ expression: QueryExpression, to writer: inout KeyedArchiveWriter
    ) throws -> ArchiveValue {
        switch expression {
        case .constant(let value):
            let constant = try add(value, to: &writer)
            return Self.add("NSConstantValueExpression", type: 0, to: &writer) {
                [.init("NSConstantValue", constant)]
            }
        case .evaluatedObject:
            return Self.add("NSSelfExpression", type: 1, to: &writer) { [] }
        case .variable(let name):
            let parts = name.split(separator: ".", maxSplits: 1).map(String.init)
            let root = writer.add(parts.first)
            let variable = Self.add("NSVariableExpression", type: 2, to: &writer) {
                [.init("NSVariable", root)]
            }
            if parts.count < 2 { return variable }
            return Self.add(path: parts[1], of: variable, to: &writer)
        case .keyPath(let keys):
            let object = try add(.evaluatedObject, to: &writer)
            return Self.add(path: keys.joined(separator: "."), of: object, isOwn: true, to: &writer)
        case .path(let inner, let keys):
            let operand = try add(inner, to: &writer)
            return Self.add(path: keys.joined(separator: "."), of: operand, to: &writer)
        case .collection(let elements):
            var values: [ArchiveValue] = []
            for element in elements {
                guard case .constant(let value) = element else {
                    throw refusal(of: expression)
                }
                values.append(try add(value, to: &writer))
            }
            let list = writer.add(array: values)
            return Self.add("NSConstantValueExpression", type: 0, to: &writer) {
                [.init("NSConstantValue", list)]
            }
        case .function(.lastPathComponent, _), .function(.element, _), .function(.first, _),
            .function(.last, _), .subquery, .conditional:
            throw refusal(of: expression)
        case .function(let function, let arguments):
            return try add(function.rawValue, arguments, to: &writer)
        case .cast(let inner, let type):
            return try add(
                "castObject:toType:", [inner, .constant(.string(type.rawValue))], to: &writer)
        }
    }

    private func refusal(of expression: QueryExpression) -> QuireError {
        QuireError(
            .unsupported, "“\(expression)” cannot be written into a compiled model.")
    }

    private func add(
        _ value: AttributeValue, to writer: inout KeyedArchiveWriter
    ) throws -> ArchiveValue {
        if value.isNull { return .null }
        guard let scalar = KeyedArchive.Scalar(value) else {
            throw refusal(of: .constant(value))
        }
        return writer.add(scalar: scalar)
    }

    private static func add(
        _ className: String, superclasses: [String] = [], type: Int64,
        to writer: inout KeyedArchiveWriter, fields: () -> [ArchiveValue.Entry]
    ) -> ArchiveValue {
        writer.add(
            [className] + superclasses + ["NSExpression", "NSObject"],
            fields() + [.init("NSExpressionType", .integer(type))])
    }

    /// The value at a key path of an operand; `isOwn` if that is the tested object.
    private static func add(
        path: String, of operand: ArchiveValue, isOwn: Bool = false,
        to writer: inout KeyedArchiveWriter
    ) -> ArchiveValue {
        let text = writer.add(path)
        let specifier = add("NSKeyPathSpecifierExpression", type: 10, to: &writer) {
            [.init("NSKeyPath", text)]
        }
        let arguments = writer.add(array: [specifier], mutable: true)
        let isSingle = isOwn && !path.contains(".")
        let selector = writer.add(isSingle ? "valueForKey:" : "valueForKeyPath:")
        return add(
            "NSKeyPathExpression", superclasses: ["NSFunctionExpression"], type: isOwn ? 3 : 4,
            to: &writer
        ) {
            [
                .init("NSOperand", operand), .init("NSSelectorName", selector),
                .init("NSArguments", arguments),
            ]
        }
    }

    /// Adds a key path as written, including operators such as `@count`.
    func add(keyPath: String, to writer: inout KeyedArchiveWriter) throws -> ArchiveValue {
        let object = try add(.evaluatedObject, to: &writer)
        return Self.add(path: keyPath, of: object, isOwn: true, to: &writer)
    }

    private func add(
        _ selector: String, _ arguments: [QueryExpression], to writer: inout KeyedArchiveWriter
    ) throws -> ArchiveValue {
        let className = writer.add("_NSPredicateUtilities")
        let utilities = Self.add("NSConstantValueExpression", type: 0, to: &writer) {
            [.init("NSConstantValueClassName", className)]
        }
        var elements: [ArchiveValue] = []
        for argument in arguments { elements.append(try add(argument, to: &writer)) }
        let list = writer.add(array: elements)
        let name = writer.add(selector)
        return Self.add("NSFunctionExpression", type: 4, to: &writer) {
            [
                .init("NSOperand", utilities), .init("NSSelectorName", name),
                .init("NSArguments", list),
            ]
        }
    }
}

// MARK: - Values

extension AttributeValue {
    /// The value of an archived scalar.
    package init(_ scalar: KeyedArchive.Scalar?) {
        switch scalar {
        case nil, .null?: self = .null
        case .boolean(let truth)?: self = .boolean(truth)
        case .integer(let number)?: self = .integer(number)
        case .real(let number)?: self = .double(number)
        case .decimal(let number)?: self = .decimal(number)
        case .string(let text)?: self = .string(text)
        case .date(let date)?: self = .date(date)
        case .data(let data)?: self = .binary(data)
        case .uuid(let uuid)?: self = .uuid(uuid)
        case .url(let url)?: self = .uri(url)
        }
    }
}

extension KeyedArchive.Scalar {
    /// The archived form of a value; `nil` for composites and objects, which are not scalars there.
    init?(_ value: AttributeValue) {
        switch value {
        case .null: self = .null
        case .boolean(let truth): self = .boolean(truth)
        case .integer(let number): self = .integer(number)
        case .double(let number): self = .real(number)
        case .decimal(let number): self = .decimal(number)
        case .string(let text): self = .string(text)
        case .date(let date): self = .date(date)
        case .binary(let data): self = .data(data)
        case .external(let value):
            guard let data = try? value.data() else { return nil }
            self = .data(data)
        case .uuid(let uuid): self = .uuid(uuid)
        case .uri(let url): self = .url(url)
        case .objectID, .composite: return nil
        }
    }
}
