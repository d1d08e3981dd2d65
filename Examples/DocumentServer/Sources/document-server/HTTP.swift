import FlyingFox
import Foundation
import Quire

// What HTTP and Quire have in common: errors are status codes, JSON has an ETag, and bodies are limited.

extension QuireError.Code {
    // The errors of requests are of the type that documents throw: its codes are an open set.
    static let badRequest = Self(rawValue: "badRequest")
    static let methodNotAllowed = Self(rawValue: "methodNotAllowed")
    static let preconditionFailed = Self(rawValue: "preconditionFailed")
    static let tooLarge = Self(rawValue: "tooLarge")
    static let invalidArchive = Self(rawValue: "invalidArchive")

    fileprivate var status: HTTPStatusCode {
        switch self {
        case .badRequest: .badRequest
        case .notFound: .notFound
        case .methodNotAllowed: .methodNotAllowed
        case .alreadyExists, .constraintConflict, .deleteDenied: .conflict
        case .historyTokenExpired: .gone
        case .preconditionFailed, .mergeConflict: .preconditionFailed
        case .tooLarge: .payloadTooLarge
        case .validation, .invalidValue, .invalidArchive: .unprocessableContent
        case .outOfSpace: HTTPStatusCode(507, phrase: "Insufficient Storage")
        case .locked, .readOnly, .storeUnavailable, .storeReplaced, .invalidState, .inputOutput:
            .serviceUnavailable
        default: .internalServerError
        }
    }
}

// MARK: - Responses

extension HTTPResponse {
    /// A response without a body.
    init(_ status: HTTPStatusCode, headers: HTTPHeaders = [:]) {
        self.init(statusCode: status, headers: headers, body: Data())
    }

    /// A response with JSON and its ETag, or the status 304 without a body if the client has the same JSON.
    init(
        _ value: some Encodable, for request: HTTPRequest, status: HTTPStatusCode = .ok,
        headers: HTTPHeaders = [:]
    ) throws {
        let json = try Data(json: value)
        let tag = ETag(json)
        self.init(status, headers: headers)
        self.headers[.eTag] = tag.text
        if request.method == .GET, let known = request.headers[.ifNoneMatch], tag.matches(known) {
            statusCode = .notModified
        } else {
            setBody(json, type: "application/json")
        }
    }

    /// The response for an error, in Quire's words.
    init(_ error: QuireError, folder: String) {
        self.init(error.code.status)
        if statusCode == .serviceUnavailable { headers[HTTPHeader("Retry-After")] = "1" }
        if let json = try? Data(json: Problem(error, folder)) {
            setBody(json, type: "application/problem+json")
        }
    }

    private struct Problem: Encodable {
        var code: String
        var message: String
        var property: String?
        var failures: [Problem]?

        init(_ error: QuireError, _ folder: String) {
            code = error.code.rawValue
            // Clients do not learn where the documents are on the server's disk.
            message = error.message.replacing(folder + "/", with: "")
            property = error.subject.property
            if !error.failures.isEmpty { failures = error.failures.map { Problem($0, folder) } }
        }
    }

    mutating func setBody(_ data: Data, type: String) {
        headers[.contentType] = type
        payload = .httpBody(HTTPBodySequence(data: data, suggestedBufferSize: 65_536))
    }
}

/// The ETag of JSON: a digest of its bytes. Unlike the number of a transaction it is right even after a document was deleted and
/// created again from an archive, which brings its own numbers.
struct ETag {
    let text: String

    init(_ json: Data) {
        // FNV-1a. It need not resist attacks: a client that can write a colliding item can also overwrite the original.
        let digest = json.reduce(0xcbf2_9ce4_8422_2325 as UInt64) {
            ($0 ^ UInt64($1)) &* 0x100_0000_01b3
        }
        text = "\"" + String(digest, radix: 16) + "\""
    }

    init(_ value: some Encodable) throws { self.init(try Data(json: value)) }

    /// Whether the value of `If-Match` or `If-None-Match` names it.
    func matches(_ header: String) -> Bool {
        header.split(separator: ",").map { $0.trimmingCharacters(in: .whitespaces) }
            .contains { $0 == text || $0 == "*" || $0 == "W/" + text }
    }

    /// - Throws: `QuireError` with code `preconditionFailed` if the value of `If-Match` does not name it.
    func check(_ header: String?) throws {
        if let header, !matches(header) {
            throw QuireError(.preconditionFailed, "The item has changed; its ETag is \(text).")
        }
    }
}

extension Data {
    fileprivate init(json value: some Encodable) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        encoder.dateEncodingStrategy = .iso8601
        self = try encoder.encode(value) + Data("\n".utf8)
    }
}

// MARK: - Bodies

extension HTTPRequest {
    /// The body. If it is too large, it is read and discarded, so that the connection can be used for the next request.
    func body(limit: Int) async throws -> Data {
        var data = Data()
        var count = 0
        for try await chunk in bodySequence {
            count += chunk.count
            if count <= limit { data.append(chunk) }
        }
        if count <= limit { return data }
        throw QuireError(.tooLarge, "The body has more than \(limit) bytes.")
    }
}

extension ItemValues {
    init(body: Data) throws {
        let decoder = JSONDecoder()
        decoder.dateDecodingStrategy = .iso8601
        do { self = try decoder.decode(Self.self, from: body) } catch {
            throw QuireError(
                .badRequest, #"The body is not an item such as {"title": "Bread", "labels": []}."#)
        }
    }
}
