import Foundation
import QuireTestSupport

@testable import Quire

/// What the corpus has of one model in several forms.
enum CorpusModels {
    /// The stores that carry their model, with the path of its source where that is known.
    struct Store: Sendable, CustomStringConvertible {
        var path: String
        var source: String?
        var description: String { path }
    }

    /// Lines of the index: the path of a store, and the path of its model within the repository.
    static func stores() throws -> [Store] {
        guard let folder = Corpus.folder else { return [] }
        let index = try String(
            contentsOf: folder.appendingPathComponent("INDEX.md"), encoding: .utf8)
        return index.split(separator: "\n").compactMap { line -> Store? in
            guard line.hasPrefix("| `stores/"), line.contains("model in Z_MODELCACHE") else {
                return nil
            }
            let parts = line.split(separator: "`", omittingEmptySubsequences: false)
            let path = String(parts[1])
            let repository = path.split(separator: "/")[1]
            let source = line.range(of: "model: `").map { range -> String in
                let rest = line[range.upperBound...]
                return "models/\(repository)/"
                    + rest[..<(rest.firstIndex(of: "`") ?? rest.endIndex)]
            }
            return Store(
                path: folder.appendingPathComponent(path).path,
                source: source.map { folder.appendingPathComponent($0).path })
        }
    }

    /// Compiled versions of a model, each with the path of its source.
    static func compiledVersions() throws -> [(path: String, source: String)] {
        let sources = Corpus.files {
            $0.hasPrefix("models/") && $0.hasSuffix(".xcdatamodel/contents")
        }
        .map { $0.deletingLastPathComponent() }
        return Corpus.files { $0.hasSuffix(".mom") }.compactMap { file in
            let name = file.deletingPathExtension().lastPathComponent + ".xcdatamodel"
            let repository = file.pathComponents.first { $0.contains("+") } ?? ""
            let folder = file.deletingLastPathComponent()
            let versions = folder.deletingPathExtension().lastPathComponent + ".xcdatamodeld"
            let source = sources.first {
                $0.lastPathComponent == name && $0.pathComponents.contains(repository)
                    && (folder.pathExtension != "momd" || $0.pathComponents.contains(versions))
            }
            return source.map { (file.path, $0.path) }
        }
    }

    /// The store's own copy in a folder, with its log: stores of the corpus are never opened.
    static func copy(of path: String, in folder: TemporaryFolder) throws -> String {
        let target = folder.path("store.sqlite")
        for suffix in ["", "-wal"] where FileManager.default.fileExists(atPath: path + suffix) {
            try FileManager.default.copyItem(atPath: path + suffix, toPath: target + suffix)
            try FileManager.default.setAttributes(
                [.posixPermissions: 0o644], ofItemAtPath: target + suffix)
        }
        return target
    }
}

extension ManagedObjectModel {
    /// The model with everything reset that compiled models do not keep.
    var asCompiled: ManagedObjectModel {
        var model = self
        model.usedWithCloudKit = false
        model.usedWithSwiftData = false
        model.configurations = model.configurations.map {
            .init(name: $0.name, entityNames: $0.entityNames.sorted())
        }.sorted { $0.name < $1.name }
        model.entities = model.entities.map { entity in
            var entity = entity
            entity.isSyncable = true
            entity.codeGenerationType = nil
            if entity.renamingIdentifier == entity.name { entity.renamingIdentifier = nil }
            entity.coreSpotlightDisplayNameExpression = nil
            if entity.managedObjectClassName == "NSManagedObject" {
                entity.managedObjectClassName = nil
            }
            entity.versionHashModifier = entity.versionHashModifier.flatMap {
                $0.isEmpty ? nil : $0
            }
            entity.properties = entity.properties.map { $0.asCompiled }.sorted { $0.name < $1.name }
            return entity
        }.sorted { $0.name < $1.name }
        return model
    }
}

extension ManagedObjectModel {
    /// Where two models differ, each with what the second says.
    func differences(from right: ManagedObjectModel) -> [String] {
        let left = self
        var result: [String] = []
        if left.entities.map(\.name) != right.entities.map(\.name) {
            result.append("entities: \(right.entities.map(\.name))")
        }
        for entity in left.entities {
            guard var other = right.entity(named: entity.name) else { continue }
            if entity.properties.map(\.name) != other.properties.map(\.name) {
                result.append("\(entity.name): \(other.properties.map(\.name))")
            }
            for property in entity.properties {
                guard let twin = other.property(named: property.name) else { continue }
                if twin != property { result.append("\(entity.name): \(twin)") }
            }
            var bare = entity
            (bare.properties, other.properties) = ([], [])
            if bare != other { result.append("\(other)") }
        }
        var (bare, other) = (left, right)
        (bare.entities, other.entities) = ([], [])
        if bare != other { result.append("\(other)") }
        return result
    }
}

extension PropertyDescription {
    fileprivate var asCompiled: PropertyDescription {
        switch self {
        case .attribute(var attribute):
            attribute.isSyncable = true
            attribute.usesScalarValueType = false
            attribute.customClassName = nil
            attribute.isStoredInTruthFile = false
            return .attribute(attribute)
        case .relationship(var relationship):
            relationship.isSyncable = true
            relationship.inverseEntityName = nil
            return .relationship(relationship)
        case .fetched(var fetched):
            fetched.isSyncable = true
            return .fetched(fetched)
        }
    }
}

extension Corpus {
    /// Every model source of the corpus that is XML.
    static func sourceModels() throws -> [(path: String, model: ManagedObjectModel)] {
        try files { $0.hasPrefix("models/") && $0.hasSuffix(".xcdatamodel/contents") }.map {
            ($0.path, try ManagedObjectModel(contentsOf: $0.path))
        }
    }

    /// The models that stores of the corpus carry, compressed as they are.
    static func modelCaches() throws -> [(path: String, data: Data)] {
        try CorpusModels.stores().map { entry in
            let folder = try TemporaryFolder()
            let connection = try SQLiteConnection(
                path: CorpusModels.copy(of: entry.path, in: folder), mode: .reading)
            defer { connection.close() }
            return try connection.withStatement("SELECT Z_CONTENT FROM Z_MODELCACHE") {
                _ = try $0.step()
                return (entry.path, $0.data(0))
            }
        }
    }

    /// The models within the mapping models of the corpus, each with what it is called there.
    static func mappingModels() throws -> [(path: String, data: Data)] {
        var models: [(path: String, data: Data)] = []
        for file in files(where: { $0.hasSuffix("/xcmapping.xml") }) {
            let text = try String(contentsOf: file, encoding: .utf8)
            for name in ["sourcemodeldata", "destinationmodeldata"] {
                guard let start = text.range(of: "name=\"\(name)\" type=\"binary\">"),
                    let end = text.range(of: "<", range: start.upperBound..<text.endIndex),
                    let data = Data(
                        base64Encoded: String(text[start.upperBound..<end.lowerBound]),
                        options: .ignoreUnknownCharacters)
                else { continue }
                models.append((file.deletingLastPathComponent().path + "#" + name, data))
            }
        }
        return models
    }
}
