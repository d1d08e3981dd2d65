import Foundation
internal import QuireModel
internal import QuireQuery
internal import QuireSystem

extension PredicateArchiver {
    /// Adds an expression.
    ///
    /// - Throws: ``QuireError`` with code `unsupported` if archives have no known form for it.
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

    /// The value at a key path of what an expression gives: `isOwn` if that is the object tested.
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

    /// Adds a key path as it is written, operators such as `@count` included.
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
