import FlyingFox
import Foundation
import Quire
import QuireDocuments

/// What a URL names.
enum Resource {
    case documents
    case document(DocumentName)
    case archive(DocumentName)
    case history(DocumentName)
    case items(DocumentName)
    case item(DocumentName, Int64)

    /// - Throws: ``RequestError`` with status 404, or `QuireError` for a name that cannot be that of a document.
    init(path: String) throws {
        // Parts are decoded after they were separated: %2F is a character of a name, and not a valid one.
        let parts = path.split(separator: "/", omittingEmptySubsequences: false).dropFirst()
            .map { $0.removingPercentEncoding ?? "" }
        switch (parts.first, parts.count, parts.dropFirst(2).first) {
        case ("documents", 1, nil): self = .documents
        case ("documents", 2, nil): self = .document(try DocumentName(parts[1]))
        case ("documents", 3, "archive"): self = .archive(try DocumentName(parts[1]))
        case ("documents", 3, "history"): self = .history(try DocumentName(parts[1]))
        case ("documents", 3, "items"): self = .items(try DocumentName(parts[1]))
        case ("documents", 4, "items"):
            guard let number = Int64(parts[3]), number > 0, number < 1 << 40 else { fallthrough }
            self = .item(try DocumentName(parts[1]), number)
        default:
            throw RequestError(
                status: .notFound, code: "notFound", message: "Nothing has this URL.")
        }
    }
}

/// Answers requests. A response to a write with a status of 200 to 299 means that the change is on the disk.
struct Routes: HTTPHandler {
    let documents: OpenDocuments
    let archives = Archives()

    func handleRequest(_ request: HTTPRequest) async throws -> HTTPResponse {
        do {
            if request.method == .PUT, request.headers[.contentType] == "application/zip" {
                let archive = try await archives.receive(request)
                defer { try? FileManager.default.removeItem(at: archive) }
                return try await create(request, from: archive)
            }
            var body = Data()
            try await request.receive(limit: 65_536) { body.append($0) }
            return try await answer(request, body)
        } catch {
            return HTTPResponse(error, folder: documents.library.folder)
        }
    }

    private func answer(_ request: HTTPRequest, _ body: Data) async throws -> HTTPResponse {
        let condition = request.headers[HTTPHeader("If-Match")]
        switch (request.method, try Resource(path: request.target.path())) {
        case (.GET, .documents):
            return try HTTPResponse(await list(), for: request)
        case (.PUT, .document(let name)):
            try await documents.create(name) { path in
                let document = Checklist(path: path)
                try await document.create()
                return document
            }
            return HTTPResponse(.created, headers: [.location: name.url])
        case (.GET, .document(let name)):
            let document = try await read(name) {
                try DocumentRepresentation(name, in: $0)
            }
            return try HTTPResponse(document, for: request)
        case (.DELETE, .document(let name)):
            try await documents.delete(name)
            return HTTPResponse(.noContent)
        case (.GET, .archive(let name)):
            let archive = try await documents.use(name) { try await archives.export($0.document) }
            return HTTPResponse(
                statusCode: .ok, headers: [.contentType: "application/zip"],
                body: HTTPBodySequence(data: archive, suggestedBufferSize: 65_536))
        case (.GET, .history(let name)):
            let token = request.query["after"]
            return HTTPResponse(.ok, try await read(name) { try ChangeFeed(after: token, in: $0) })
        case (.GET, .items(let name)):
            let query = try ItemQuery(request.query)
            return try HTTPResponse(await read(name) { try query.page(in: $0) }, for: request)
        case (.POST, .items(let name)):
            let content = try ItemContent(body: body)
            let item = try await write(name) { try $0.addItem(content) }
            return try HTTPResponse(
                item, for: request, status: .created,
                headers: [.location: "\(name.url)/items/\(item.id)"])
        case (.GET, .item(let name, let number)):
            let item = try await read(name) { ItemRepresentation(try $0.item(number)) }
            return try HTTPResponse(item, for: request)
        case (.PUT, .item(let name, let number)):
            let content = try ItemContent(body: body)
            let item = try await write(name) {
                try $0.replaceItem(number, with: content, if: condition)
            }
            return try HTTPResponse(item, for: request)
        case (.DELETE, .item(let name, let number)):
            try await write(name) { try $0.deleteItem(number, if: condition) }
            return HTTPResponse(.noContent)
        default:
            throw RequestError(
                status: .methodNotAllowed, code: "methodNotAllowed",
                message: "\(request.method.rawValue) is not possible here.")
        }
    }

    /// Creates a document from an archive.
    private func create(_ request: HTTPRequest, from archive: URL) async throws -> HTTPResponse {
        guard case .document(let name) = try Resource(path: request.target.path()) else {
            throw RequestError(
                status: .unsupportedMediaType, code: "unsupportedMediaType",
                message: "Only documents are created from archives.")
        }
        try await documents.create(name) { path in
            try await archives.makeDocument(from: archive, at: path)
        }
        return HTTPResponse(.created, headers: [.location: name.url])
    }

    private struct Listed: Encodable {
        var name: String
        var modified: Date?
        var size: Int64
        /// Why the document cannot be opened.
        var error: String?
    }

    private func list() async throws -> [Listed] {
        try await documents.library.entries().map {
            Listed(
                name: $0.name, modified: $0.modified, size: $0.size,
                error: $0.error?.code.rawValue)
        }
    }

    private func read<Result: Sendable>(
        _ name: DocumentName, _ body: @escaping @Sendable (ManagedObjectContext) throws -> Result
    ) async throws -> Result {
        try await documents.use(name) { try await $0.read(body) }
    }

    private func write<Result: Sendable>(
        _ name: DocumentName, _ body: @escaping @Sendable (ManagedObjectContext) throws -> Result
    ) async throws -> Result {
        try await documents.use(name) { try await $0.write(body) }
    }
}

extension DocumentName {
    fileprivate var url: String {
        "/documents/" + (text.addingPercentEncoding(withAllowedCharacters: .urlPathAllowed) ?? text)
    }
}
