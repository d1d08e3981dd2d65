import Foundation
public import Quire
import QuireModel

// The description of a shared document: `container.json`, which is made once, and the model of its creator.

extension SyncContainer {
    static let descriptionFile = SyncFileName(unchecked: "container.json")

    static func description(
        in transport: any SyncTransport
    ) async throws -> SyncContainerDescription? {
        try await transport.contents(of: descriptionFile, maximumSize: 1 << 16).map {
            try SyncContainerDescription($0)
        }
    }

    static func existingDescription(
        in transport: any SyncTransport
    ) async throws -> SyncContainerDescription {
        if let description = try await description(in: transport) { return description }
        throw QuireError(
            .notFound,
            "There is no shared document in the folder. If another machine has made one, it has not arrived yet; otherwise create one."
        )
    }

    // MARK: - Model

    /// The maximum size of a file with a model.
    private static let maximumModelSize = 4 << 20

    private static func modelFile(_ digest: String) -> SyncFileName? {
        SyncFileName(unchecked: "model").entry("\(digest).xml")
    }

    /// Hands the model over, for programs that make a new replica.
    func sendModel() async throws {
        let replica = replica
        guard let file = Self.modelFile(replica.modelDigest) else { return }
        try await transport.create(file, try await onQueue { replica.modelXML() })
    }

    /// The model of the shared document in a transport's folder, as its creator had it, for making a new store that joins it.
    ///
    /// - Throws: `QuireError` with code `notFound` if there is no shared document, or its model has not arrived yet; `invalidFormat`
    ///   if a file is damaged, or has not arrived whole; `unsupported` if it was made by a later version.
    public static func model(in transport: any SyncTransport) async throws -> ManagedObjectModel {
        let digest = try await existingDescription(in: transport).model
        guard let file = modelFile(digest) else {
            throw QuireError(
                .invalidFormat, "“\(descriptionFile)” names no valid model.",
                subject: .init(file: descriptionFile.path, value: digest))
        }
        guard let xml = try await transport.contents(of: file, maximumSize: maximumModelSize) else {
            throw QuireError(
                .notFound,
                "The model of the shared document has not arrived in the folder yet; try again later.",
                subject: .init(file: file.path))
        }
        let model = try ManagedObjectModel(modelXML: xml, name: file.path)
        guard try SyncModel(model.layout()).digest == digest else {
            throw QuireError(
                .invalidFormat, "“\(file)” is another model than its name says.",
                subject: .init(file: file.path))
        }
        return model
    }
}

/// The content of `container.json`.
struct SyncContainerDescription: Codable {
    let format: Int
    let container: String
    let name: String
    /// The digest of the creator's model.
    let model: String

    init(format: Int, container: String, name: String, model: String) {
        self.format = format
        self.container = container
        self.name = name
        self.model = model
    }

    init(_ data: Data) throws {
        do {
            self = try JSONDecoder().decode(Self.self, from: data)
        } catch {
            throw QuireError(
                .invalidFormat, "“container.json” is damaged, or has not arrived whole.",
                subject: .init(file: "container.json"), underlying: error)
        }
        guard format == 1 else {
            throw QuireError(
                .unsupported,
                "The shared document was made by a later version of this program (format \(format)).",
                subject: .init(file: "container.json"))
        }
    }

    func encoded() throws -> Data {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .prettyPrinted]
        return try encoder.encode(self)
    }

    func identifier() throws -> SyncIdentifier {
        guard let id = SyncIdentifier(container) else {
            throw QuireError(
                .invalidFormat, "“container.json” has no valid identifier.",
                subject: .init(file: "container.json", value: container))
        }
        return id
    }
}
