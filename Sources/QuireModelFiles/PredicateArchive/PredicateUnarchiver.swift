import Foundation
internal import QuireModel
internal import QuireQuery
internal import QuireSystem

/// Decodes predicates and expressions from Foundation's keyed archives.
///
/// An archive may share objects, so that a small one expands to a tree of any size; `budget` bounds the tree.
struct PredicateUnarchiver {
    /// The maximum depth, as for predicates in text.
    static let maximumDepth = 200

    let archive: KeyedArchive
    private var budget = 20_000
    private var depth = 0

    init(archive: KeyedArchive) { self.archive = archive }

    /// The referenced predicate; `nil` if missing.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat` if it is not a predicate, `unsupported` if the format language
    /// cannot express it.
    mutating func predicate(_ value: ArchiveValue?) throws -> QueryPredicate? {
        guard let object = try archive.object(value) else { return nil }
        try enter()
        defer { depth -= 1 }
        switch object.className {
        case "NSComparisonPredicate": return .comparison(try comparison(object))
        case "NSCompoundPredicate":
            var parts: [QueryPredicate] = []
            for part in try archive.list(object["NSSubpredicates"]) ?? [] {
                parts.append(try required(predicate(part), "a predicate"))
            }
            switch try archive.integer(object["NSCompoundPredicateType"]) {
            case 0 where parts.count == 1: return .not(parts[0])
            case 1: return .and(parts)
            case 2: return .or(parts)
            default: throw archive.unexpected("a compound predicate")
            }
        case "NSTruePredicate": return .constant(true)
        case "NSFalsePredicate": return .constant(false)
        default: throw unsupported(object)
        }
    }

    /// The referenced expression; `nil` if missing.
    ///
    /// - Throws: As ``predicate(_:)``.
    mutating func expression(_ value: ArchiveValue?) throws -> QueryExpression? {
        guard let object = try archive.object(value) else { return nil }
        try enter()
        defer { depth -= 1 }
        switch object.className {
        case "NSConstantValueExpression": return try constant(object)
        case "NSSelfExpression": return .evaluatedObject
        case "NSVariableExpression":
            return .variable(try required(archive.string(object["NSVariable"]), "a variable"))
        case "NSKeyPathExpression": return try keyPath(object)
        case "NSKeyPathSpecifierExpression":
            return try Self.path(
                required(archive.string(object["NSKeyPath"]), "a key path"), of: nil)
        case "NSFunctionExpression": return try function(object)
        case "NSAggregateExpression":
            var elements: [QueryExpression] = []
            for element in try archive.list(object["NSCollection"]) ?? [] {
                elements.append(try required(expression(element), "an expression"))
            }
            return .collection(elements)
        case "NSSubqueryExpression", "NSTernaryExpression": return try composed(object)
        default: throw unsupported(object)
        }
    }

    private mutating func enter() throws {
        depth += 1
        budget -= 1
        guard depth <= Self.maximumDepth, budget > 0 else {
            throw archive.damaged("a predicate is nested too deeply")
        }
    }

    private func required<T>(_ value: T?, _ wanted: String) throws -> T {
        guard let value else { throw archive.unexpected(wanted) }
        return value
    }

    private func unsupported(_ object: KeyedArchive.Object) -> QuireError {
        QuireError(
            .unsupported,
            "A predicate in “\(archive.name)” has a part of the class \(object.className), which the predicate "
                + "format language cannot express.",
            file: archive.name)
    }

    // MARK: - Comparisons

    private static let operators: [Int64: QueryComparison.Operator] = [
        0: .less, 1: .lessOrEqual, 2: .greater, 3: .greaterOrEqual, 4: .equal, 5: .notEqual,
        6: .matches, 7: .like, 8: .beginsWith, 9: .endsWith, 10: .in, 99: .contains, 100: .between,
    ]

    private mutating func comparison(_ object: KeyedArchive.Object) throws -> QueryComparison {
        let left = try required(expression(object["NSLeftExpression"]), "an expression")
        let right = try required(expression(object["NSRightExpression"]), "an expression")
        let description = try required(
            archive.object(object["NSPredicateOperator"]), "an operator")
        guard let type = try archive.integer(description["NSOperatorType"]),
            var operation = Self.operators[type]
        else { throw unsupported(description) }
        if operation == .equal, try archive.boolean(description["NSNegate"]) ?? false {
            operation = .notEqual
        }
        let modifier: QueryComparison.Modifier
        switch try archive.integer(description["NSModifier"]) ?? 0 {
        case 0: modifier = .direct
        case 1: modifier = .all
        case 2: modifier = .any
        default: throw unsupported(description)
        }
        let flags = try archive.integer(description["NSFlags"] ?? description["NSOptions"]) ?? 0
        return QueryComparison(
            left, operation, right, modifier: modifier,
            options: .init(rawValue: UInt8(truncatingIfNeeded: flags & 0xF)))
    }

    // MARK: - Expressions

    private mutating func constant(_ object: KeyedArchive.Object) throws -> QueryExpression {
        let value = object["NSConstantValue"]
        if let list = try archive.objectIfAny(value), list.holdsElements {
            guard let elements = try archive.list(value), elements.count < budget else {
                throw archive.unexpected("a list")
            }
            budget -= elements.count
            return .collection(
                try elements.map { .constant(AttributeValue(try archive.scalar($0))) })
        }
        if value == nil, object["NSConstantValueClassName"] != nil { throw unsupported(object) }
        return .constant(AttributeValue(try archive.scalar(value)))
    }

    private mutating func keyPath(_ object: KeyedArchive.Object) throws -> QueryExpression {
        let arguments = try archive.list(object["NSArguments"]) ?? []
        let specifier = try required(archive.object(arguments.first), "a key path")
        let text = try required(
            archive.string(specifier["NSKeyPath"] ?? specifier["NSConstantValue"]), "a key path")
        return try Self.path(text, of: expression(object["NSOperand"]))
    }

    /// The value at a key path, which may contain operators such as `@count`.
    private static func path(
        _ text: String, of operand: QueryExpression?
    ) throws -> QueryExpression {
        let keys = text.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
        if text.contains("@") {
            let prefix =
                switch operand {
                case nil, .evaluatedObject?: ""
                case .variable(let name)?: "$\(name)."
                case let inner?: "(\(inner.description))."
                }
            return try QueryExpression(format: prefix + text)
        }
        switch operand {
        case nil, .evaluatedObject?: return text == "SELF" ? .evaluatedObject : .keyPath(keys)
        case .variable(let name)?: return .variable(name + "." + text)
        case .keyPath(let first)?: return .keyPath(first + keys)
        case let inner?: return .path(inner, keys)
        }
    }

    private mutating func function(_ object: KeyedArchive.Object) throws -> QueryExpression {
        let selector = try required(archive.string(object["NSSelectorName"]), "a function")
        var arguments: [QueryExpression] = []
        for argument in try archive.list(object["NSArguments"]) ?? [] {
            arguments.append(try required(expression(argument), "an expression"))
        }
        let operand = try required(archive.object(object["NSOperand"]), "an expression")
        guard operand["NSConstantValueClassName"] != nil else {
            // A method of the operand.
            let inner = try required(expression(object["NSOperand"]), "an expression")
            let parts =
                [inner.description, QueryExpression.constant(.string(selector)).description]
                + arguments.map(\.description)
            return try QueryExpression(format: "FUNCTION(\(parts.joined(separator: ", ")))")
        }
        if let function = QueryFunction(rawValue: selector),
            function.argumentCount == arguments.count
        {
            return .function(function, arguments)
        }
        // A selector without an equivalent function, such as a conversion.
        let texts = arguments.map(\.description).joined(separator: ", ")
        return try QueryExpression(format: "\(selector)(\(texts))")
    }

    /// A subquery or conditional, distinguished by the types of their parts.
    private mutating func composed(_ object: KeyedArchive.Object) throws -> QueryExpression {
        var condition: QueryPredicate?
        var variable: String?
        var expressions: [String: QueryExpression] = [:]
        for key in object.keys {
            guard let part = try archive.objectIfAny(object[key]) else {
                if case .string(let name)? = try archive.resolved(object[key]) { variable = name }
                continue
            }
            if part.className == "NSVariableExpression",
                object.className == "NSSubqueryExpression"
            {
                variable = try archive.string(part["NSVariable"])
            } else if part.classNames.contains("NSPredicate") {
                condition = try predicate(object[key])
            } else {
                expressions[key] = try expression(object[key])
            }
        }
        guard let condition else { throw unsupported(object) }
        if object.className == "NSSubqueryExpression" {
            guard let variable, expressions.count == 1, let collection = expressions.values.first
            else { throw unsupported(object) }
            return .subquery(collection, variable: variable, condition)
        }
        func branch(_ word: String) throws -> QueryExpression {
            guard expressions.count == 2,
                let found = expressions.first(where: { $0.key.contains(word) })
            else { throw unsupported(object) }
            return found.value
        }
        return .conditional(condition, try branch("True"), try branch("False"))
    }
}

extension KeyedArchive.Object {
    /// Whether it is an array or a set.
    fileprivate var holdsElements: Bool {
        classNames.contains { ["NSArray", "NSSet", "NSOrderedSet"].contains($0) }
    }
}
