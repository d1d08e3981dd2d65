import ArgumentParser
import Quire
import QuireDocuments
import QuireSQLite
import QuireSync

/// `quire info PATH`
struct InfoVerb: DocumentVerb {
    static let name = "info"
    static let abstract = "Shows the content of a document, a store or an archive."
    static let discussion = """
        EXAMPLES:
          quire info Library.quire
          quire info Backup.zip --json
        """

    @MainActor
    func run(on document: DocumentSession) async throws -> Reply {
        let info = try await DocumentInfo(of: document)
        return Reply { try $0.printResult(levels: 2, info.lines) { .object(info.members) } }
    }
}

/// The facts about a document that `info` prints.
@MainActor
struct DocumentInfo {
    /// An entity and the number of objects of exactly that entity.
    struct Entity {
        var name: String
        var isAbstract: Bool
        var parent: String?
        var count: Int
    }

    var path: String
    var kind: DocumentSession.Kind
    var storeType: String
    var storeUUID: String
    var protection: FileProtection
    var isMirrored: Bool
    var modelVersionIdentifiers: [String]
    var entities: [Entity]
    var additionalContent: [(path: String, size: Int64)]
    var externalData: (files: Int, bytes: Int64)

    /// Whether the shared folder is encrypted; `nil` if the document is not synchronized.
    var encryptedFolder: Bool?

    init(of document: DocumentSession) async throws {
        path = document.path
        kind = document.kind
        storeType = document.store.type.rawValue
        storeUUID = document.store.identity.uuid
        protection = document.store.storeProtection?.fileProtection ?? .none
        isMirrored = try document.isMirrored
        let layout = document.layout
        modelVersionIdentifiers = try document.store.metadata().modelVersionIdentifiers
        entities = try layout.entities.map { entity in
            var request = FetchRequest(entity.name)
            request.includesSubentities = false
            return Entity(
                name: entity.name, isAbstract: entity.isAbstract,
                parent: entity.superentityNumber.map { layout.entity(number: $0).name },
                count: entity.isAbstract ? 0 : try document.context.count(for: request))
        }
        additionalContent = try document.additionalContentFiles()
        externalData = try document.externalData()
        // A store that Core Data made cannot be a replica.
        if let store = document.store as? SQLiteStore, store.carriesModel {
            encryptedFolder = try await document.replica().status()?.isEncrypted
        }
    }

    /// The members of the JSON object.
    var members: [String: JSONValue] {
        [
            "path": .string(path),
            "kind": .string(kind.rawValue),
            "storeType": .string(storeType),
            "storeUUID": .string(storeUUID),
            "mirroredToCloudKit": .boolean(isMirrored),
            "protection": ProtectionListing.json(protection, isLocked: false),
            "encryptedFolder": encryptedFolder.map { .boolean($0) } ?? .null,
            "modelVersionIdentifiers": .array(modelVersionIdentifiers.map { .string($0) }),
            "entities": .array(
                entities.map {
                    .object([
                        "name": .string($0.name), "abstract": .boolean($0.isAbstract),
                        "parent": JSONValue($0.parent), "count": .integer(Int64($0.count)),
                    ])
                }),
            "additionalContent": .array(additionalContent.map(ContentFile.json)),
            "externalData": .object([
                "files": .integer(Int64(externalData.files)),
                "bytes": .integer(externalData.bytes),
            ]),
        ]
    }

    /// The lines that are read by people.
    var lines: [String] {
        var lines = ["\(path): \(kind.title), store \(storeType) \(storeUUID)"]
        let versions = modelVersionIdentifiers.filter { !$0.isEmpty }.joined(separator: ", ")
        if !versions.isEmpty { lines.append("Model version: \(versions)") }
        if let line = ProtectionListing.line(protection, encryptedFolder: encryptedFolder) {
            lines.append(line)
        }
        if isMirrored { lines.append("Mirrored to CloudKit by its app") }
        let table = TextTable(
            [("entity", .left), ("parent", .left), ("objects", .right)],
            rows: entities.map {
                [$0.name, $0.parent ?? "", $0.isAbstract ? "abstract" : "\($0.count)"]
            })
        lines += [""] + table.lines + ContentFile.lines(additionalContent)
        if externalData.files > 0 {
            let files = Count.of(externalData.files, "file")
            lines += ["", "External data: \(files), \(externalData.bytes) bytes"]
        }
        return lines
    }
}

/// Counted nouns.
enum Count {
    /// “1 file”, “2 files”.
    static func of(_ count: Int, _ noun: String, _ plural: String? = nil) -> String {
        "\(count) \(count == 1 ? noun : plural ?? noun + "s")"
    }
}
