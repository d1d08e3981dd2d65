import Foundation
internal import QuireModel
internal import QuireModelFiles
internal import QuireSystem

/// An expression of a mapping model, as an archive.
///
/// | expression | |
/// |---|---|
/// | a constant | its value |
/// | `$source`, `$source.key.path` | the old object, and what it leads to |
/// | `FUNCTION($manager, "destinationInstancesForSourceRelationshipNamed:sourceInstances:", "r", $source.r)` | the new objects |
/// | `FUNCTION($manager, "destinationInstancesForEntityMappingNamed:sourceInstances:", "m", $source.r)` | of one mapping |
/// | `FUNCTION($entityPolicy, "name:…", …)` | what the policy computes |
/// | `now()` | the time of the migration |
struct MappingExpressionArchive {
    private let archive: KeyedArchive
    private static let greatestDepth = 16

    init(_ data: Data, path: String) throws { archive = try KeyedArchive(data, name: path) }

    /// The expression; `nil` if there is none.
    func expression() throws -> MappingExpression? {
        guard let root = try archive.objectIfAny(archive.top["root"]) else { return nil }
        return try expression(root, depth: 0)
    }

    private func expression(
        _ object: KeyedArchive.Object, depth: Int
    ) throws -> MappingExpression {
        guard depth < Self.greatestDepth else {
            throw archive.damaged("an expression is nested too deeply")
        }
        switch object.className {
        case "NSConstantValueExpression":
            // A class stands for what its functions are called on.
            if object["NSConstantValueClassName"] != nil { throw unsupported(object) }
            return .constant(AttributeValue(try archive.scalar(object["NSConstantValue"])))
        case "NSVariableExpression":
            guard try archive.string(object["NSVariable"]) == "source" else {
                throw unsupported(object)
            }
            return .source
        case "NSKeyPathExpression":
            guard let operand = try archive.objectIfAny(object["NSOperand"]),
                try archive.string(operand["NSVariable"]) == "source",
                let specifier = try arguments(of: object).first,
                let path = try archive.string(specifier["NSKeyPath"])
            else { throw unsupported(object) }
            return .sourceValue(path)
        case "NSFunctionExpression": return try function(object, depth: depth)
        default: throw unsupported(object)
        }
    }

    private func arguments(of object: KeyedArchive.Object) throws -> [KeyedArchive.Object] {
        try (archive.list(object["NSArguments"]) ?? []).compactMap { try archive.object($0) }
    }

    private func function(
        _ object: KeyedArchive.Object, depth: Int
    ) throws -> MappingExpression {
        let arguments = try arguments(of: object)
        guard let selector = try archive.string(object["NSSelectorName"]),
            let operand = try archive.objectIfAny(object["NSOperand"])
        else { throw unsupported(object) }
        func name() throws -> String {
            guard let first = arguments.first,
                let text = try archive.string(first["NSConstantValue"])
            else { throw unsupported(object) }
            return text
        }
        switch selector {
        case "destinationInstancesForSourceRelationshipNamed:sourceInstances:":
            return .relatedObjects(try name())
        case "destinationInstancesForEntityMappingNamed:sourceInstances:":
            guard arguments.count == 2 else { throw unsupported(object) }
            return .mappedObjects(
                mapping: try name(), try expression(arguments[1], depth: depth + 1))
        case "now" where arguments.isEmpty: return .now
        default:
            guard operand.className == "NSVariableExpression",
                try archive.string(operand["NSVariable"]) == "entityPolicy"
            else { throw unsupported(object) }
            return .policyFunction(
                selector, try arguments.map { try expression($0, depth: depth + 1) })
        }
    }

    private func unsupported(_ object: KeyedArchive.Object) -> QuireError {
        QuireError(
            .unsupported,
            "“\(archive.name)” has an expression (\(object.className)) that is not understood; map it by a policy.",
            subject: .init(file: archive.name))
    }
}
