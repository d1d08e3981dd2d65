import Foundation
internal import QuireAtomicStores
internal import QuireModel
public import QuireModelFiles
internal import QuireSystem

/// A mapping model as Xcode keeps it: `NAME.xcmappingmodel/xcmapping.xml`, which is an XML store of
/// `XDDevMappingModel`, `XDDevEntityMapping`, `XDDevAttributeMapping` and `XDDevRelationshipMapping` objects, with both
/// models and all expressions as archives.
struct MappingModelFile {
    let path: String
    /// The version names of the source and destination models, if the file has them.
    let sourceName: String?
    let destinationName: String?
    private let sourceArchive: Data?
    private let destinationArchive: Data?
    private let entities: [Entity]

    private struct Entity {
        var values: [String: String] = [:]
        var properties: [(isRelationship: Bool, values: [String: String])] = []
    }

    /// Reads a mapping model file.
    ///
    /// - Parameter path: A `.xcmappingmodel` folder, or the `xcmapping.xml` in one.
    /// - Throws: ``QuireError`` with code `notFound` or `invalidFormat`.
    init(contentsOf path: String) throws {
        var path = FileSystem.absolute(path)
        if try FileSystem.information(at: path)?.kind == .folder {
            path = FileSystem.path(path, "xcmapping.xml")
        }
        self.path = path
        let reader = try XMLStoreReader(FileSystem.contents(of: path), path: path)
        _ = try reader.head()
        var objects: [Int64: XMLStoreReader.Object] = [:]
        try reader.forEachObject { objects[$0.key] = $0 }
        func found(_ type: String) -> [XMLStoreReader.Object] {
            objects.values.filter { $0.type == type }.sorted { $0.key < $1.key }
        }
        guard let model = found("XDDEVMAPPINGMODEL").first else {
            throw QuireError(.invalidFormat, "“\(path)” is not a mapping model.", file: path)
        }
        let values = Self.values(of: model)
        sourceName = Self.versionName(values["sourcemodelpath"])
        destinationName = Self.versionName(values["destinationmodelpath"])
        sourceArchive = Self.data(values["sourcemodeldata"])
        destinationArchive = Self.data(values["destinationmodeldata"])
        entities = found("XDDEVENTITYMAPPING").map { object in
            var entity = Entity(values: Self.values(of: object))
            for relation in object.relationships {
                let isRelationship = relation.name == "relationshipmappings"
                guard isRelationship || relation.name == "attributemappings" else { continue }
                for key in relation.keys {
                    guard let property = objects[key] else { continue }
                    entity.properties.append((isRelationship, Self.values(of: property)))
                }
            }
            return entity
        }.sorted { left, right in
            let numbers = [left, right].map { Int($0.values["mappingnumber"] ?? "") ?? .max }
            return numbers[0] < numbers[1]
        }
    }

    private static func values(of object: XMLStoreReader.Object) -> [String: String] {
        Dictionary(
            object.attributes.map { name, type, text in
                (name.lowercased(), type == "string" ? XMLStoreText.unescaped(text) : text)
            }, uniquingKeysWith: { first, _ in first })
    }

    private static func data(_ text: String?) -> Data? {
        text.flatMap { Data(base64Encoded: $0, options: .ignoreUnknownCharacters) }
    }

    /// `Moody 4` of `Migrations/Moody.xcdatamodeld/Moody 4.xcdatamodel`.
    private static func versionName(_ path: String?) -> String? {
        guard let name = path?.split(separator: "/").last, name.hasSuffix(".xcdatamodel") else {
            return nil
        }
        return String(name.dropLast(".xcdatamodel".count))
    }

    // MARK: - Models

    /// The model that it maps from.
    func sourceModel(among versions: ModelVersions) throws -> ManagedObjectModel {
        try model(sourceName, sourceArchive, among: versions, "from")
    }

    /// The model that it maps to.
    func destinationModel(among versions: ModelVersions) throws -> ManagedObjectModel {
        try model(destinationName, destinationArchive, among: versions, "to")
    }

    private func model(
        _ name: String?, _ archive: Data?, among versions: ModelVersions, _ which: String
    ) throws -> ManagedObjectModel {
        if let name, versions.names.contains(name) { return try versions.model(named: name) }
        var damage: (any Error)?
        do {
            if let archive { return try ManagedObjectModel(compiledModel: archive, name: path) }
        } catch {
            damage = error
        }
        throw QuireError(
            .incompatibleModel,
            "“\(path)” maps \(which) “\(name ?? "an unnamed model")”, which is not one of the versions: "
                + versions.names.joined(separator: ", ") + ".",
            file: path, underlying: damage)
    }

    // MARK: - The mapping

    /// The mapping between two models.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat`, or `unsupported` for an unknown expression.
    func mapping(from source: ManagedObjectModel, to destination: ManagedObjectModel) throws
        -> MappingModel
    {
        let layouts = (try source.layout(), try destination.layout())
        return MappingModel(
            entityMappings: try entities.map { try mapping(of: $0, layouts.0, layouts.1) })
    }

    private static let types: [String: EntityMappingType] = [
        "Add": .add, "Remove": .remove, "Copy": .copy, "Transform": .transform, "Custom": .custom,
    ]

    private func mapping(
        of entity: Entity, _ source: ResolvedModel, _ destination: ResolvedModel
    ) throws -> EntityMapping {
        let old = entity.values["sourcename"]
        let new = entity.values["destinationname"]
        let name =
            entity.values["name"]
            ?? (old.map { old in new.map { "\(old)To\($0)" } ?? old } ?? new ?? "")
        let type =
            Self.types[entity.values["mappingtypename"] ?? ""]
            ?? (old == nil ? .add : new == nil ? .remove : .transform)
        var mapping = EntityMapping(name: name, type: type, from: old, to: new)
        mapping.entityMigrationPolicyName = entity.values["migrationpolicyclassname"]
        let oldEntity = old.flatMap(source.entity(named:))
        for (isRelationship, values) in entity.properties {
            guard let property = values["name"] else { continue }
            var expression = try Self.data(values["valueexpressiondata"]).flatMap {
                try MappingExpressionArchive($0, path: path).expression()
            }
            // Expressions omitted by Xcode are its defaults.
            if expression == nil, let oldEntity {
                if isRelationship, oldEntity.relationship(named: property) != nil {
                    expression = .relatedObjects(property)
                } else if !isRelationship, case .attribute? = oldEntity.properties[property] {
                    expression = .sourceValue(property)
                }
            }
            guard let expression else { continue }
            if isRelationship {
                mapping.relationshipMappings.set(expression, for: property)
            } else {
                mapping.attributeMappings.set(expression, for: property)
            }
        }
        return mapping
    }
}

extension CustomMapping {
    /// Reads an Xcode mapping model.
    ///
    /// - Parameters:
    ///   - path: A `.xcmappingmodel` folder.
    ///   - versions: The versions of the model, two of which it maps between.
    /// - Throws: ``QuireError`` with code `notFound`, `invalidFormat`, `incompatibleModel` if it maps between other models,
    ///   or `unsupported` if it has an unsupported expression.
    public init(contentsOf path: String, among versions: ModelVersions) throws {
        let file = try MappingModelFile(contentsOf: path)
        let source = try file.sourceModel(among: versions)
        let destination = try file.destinationModel(among: versions)
        self.init(
            from: source, to: destination,
            mapping: try file.mapping(from: source, to: destination))
    }
}

// MARK: - Expressions

/// An archived expression of a mapping model.
///
/// | expression | |
/// |---|---|
/// | a constant | its value |
/// | `$source`, `$source.key.path` | the old object, and values at its key paths |
/// | `FUNCTION($manager, "destinationInstancesForSourceRelationshipNamed:sourceInstances:", "r", $source.r)` | the new objects |
/// | `FUNCTION($manager, "destinationInstancesForEntityMappingNamed:sourceInstances:", "m", $source.r)` | of one mapping |
/// | `FUNCTION($entityPolicy, "name:…", …)` | the policy's result |
/// | `now()` | the time of the migration |
struct MappingExpressionArchive {
    private let archive: KeyedArchive
    private static let maximumDepth = 16

    init(_ data: Data, path: String) throws { archive = try KeyedArchive(data, name: path) }

    /// The expression; `nil` if it is empty.
    func expression() throws -> MappingExpression? {
        guard let root = try archive.objectIfAny(archive.top["root"]) else { return nil }
        return try expression(root, depth: 0)
    }

    private func expression(
        _ object: KeyedArchive.Object, depth: Int
    ) throws -> MappingExpression {
        guard depth < Self.maximumDepth else {
            throw archive.damaged("an expression is nested too deeply")
        }
        switch object.className {
        case "NSConstantValueExpression":
            // A class constant is the target of a class function.
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
            "“\(archive.name)” has an expression (\(object.className)) that is not supported; use a policy.",
            file: archive.name)
    }
}
