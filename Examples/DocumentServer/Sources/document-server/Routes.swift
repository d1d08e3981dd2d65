import FlyingFox
import Foundation
import Quire
import QuireDocuments

/// Answers requests. A status from 200 to 299 for a write means that it is on the disk.
struct Routes: HTTPHandler {
    let documents: OpenDocuments

    func handleRequest(_ request: HTTPRequest) async throws -> HTTPResponse {
        do {
            let isArchive = request.headers[.contentType] == "application/zip"
            let body = try await request.body(limit: isArchive ? 16 << 20 : 64 << 10)
            // Decoded after it was split: %2F is a character of a name, and one that no name may have.
            let parts = request.target.path().components(separatedBy: "/").dropFirst()
                .map { $0.removingPercentEncoding ?? "" }
            if parts == ["documents"], request.method == .GET {
                return try HTTPResponse(await list(), for: request)
            }
            guard parts.count > 1, parts[0] == "documents" else { throw Self.unknown(request) }
            return try await answer(
                request, about: DocumentName(parts[1]), Array(parts.dropFirst(2)), body)
        } catch {
            let isFull = (error as? CocoaError)?.code == .fileWriteOutOfSpace
            let other = QuireError(isFull ? .outOfSpace : .inputOutput, "The request failed.")
            let error = error as? QuireError ?? other
            return HTTPResponse(error, folder: documents.library.folder)
        }
    }

    private func answer(
        _ request: HTTPRequest, about name: DocumentName, _ parts: [String], _ body: Data
    ) async throws -> HTTPResponse {
        let number =
            parts.count == 2
            ? Int64(parts[1]).flatMap { (1..<1 << 40).contains($0) ? $0 : nil } : nil
        if parts.count > (number == nil ? 1 : 2) { throw Self.unknown(request) }
        let condition = request.headers[HTTPHeader("If-Match")]

        switch (request.method, parts.first, number) {
        case (.PUT, nil, nil):
            try await documents.create(name) { document in
                if !body.isEmpty {
                    return try await Archives.makeDocument(from: body, at: document.fileURL)
                }
                try await document.create()
                return document
            }
            return HTTPResponse(.created, headers: [.location: name.url])
        case (.GET, nil, nil):
            return try HTTPResponse(await read(name) { ["items": try $0.allItems()] }, for: request)
        case (.DELETE, nil, nil):
            try await documents.delete(name)
            return HTTPResponse(.noContent)
        case (.GET, "archive", nil):
            var response = HTTPResponse(.ok)
            let archive = try await documents.use(name) { try await Archives.export($0.document) }
            response.setBody(archive, type: "application/zip")
            return response
        case (.GET, "history", nil):
            let token = request.query["after"]
            return try HTTPResponse(
                await read(name) { try ChangeFeed(after: token, in: $0) }, for: request)
        case (.GET, "items", nil):
            let query = try ItemQuery(request.query)
            return try HTTPResponse(await read(name) { try query.page(in: $0) }, for: request)
        case (.POST, "items", nil):
            let values = try ItemValues(body: body)
            let item = try await write(name) { try $0.addItem(values) }
            let url = "\(name.url)/items/\(item.number ?? 0)"
            return try HTTPResponse(item, for: request, status: .created, headers: [.location: url])
        case (.GET, "items", let number?):
            return try HTTPResponse(
                await read(name) { ItemValues(try $0.item(number)) }, for: request)
        case (.PUT, "items", let number?):
            let values = try ItemValues(body: body)
            let item = try await write(name) {
                try $0.replaceItem(number, with: values, if: condition)
            }
            return try HTTPResponse(item, for: request)
        case (.DELETE, "items", let number?):
            try await write(name) { try $0.deleteItem(number, if: condition) }
            return HTTPResponse(.noContent)
        case (_, nil, nil), (_, "archive", nil), (_, "history", nil), (_, "items", _):
            throw QuireError(
                .methodNotAllowed, "\(request.method.rawValue) is not allowed here.")
        default:
            throw Self.unknown(request)
        }
    }

    private static func unknown(_ request: HTTPRequest) -> QuireError {
        QuireError(.notFound, "There is nothing at “\(request.target.path())”.")
    }

    private struct Listed: Encodable {
        var name: String
        var modified: Date?
        var size: Int64
        /// The reason why the document cannot be opened.
        var error: String?
    }

    private func list() async throws -> [Listed] {
        try await documents.library.entries().map {
            Listed(
                name: $0.name, modified: $0.modified, size: $0.size, error: $0.error?.code.rawValue)
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
