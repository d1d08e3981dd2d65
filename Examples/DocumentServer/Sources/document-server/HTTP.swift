import FlyingFox
import Foundation
import Quire

// What HTTP and Quire have in common: errors as status codes, contents as JSON with an ETag, bodies of a limited size.

/// An error of a request itself; those of documents are of type `QuireError`.
struct RequestError: Error {
    var status: HTTPStatusCode
    var code: String
    var message: String
}

// MARK: - Errors

extension HTTPStatusCode {
    static let insufficientStorage = HTTPStatusCode(507, phrase: "Insufficient Storage")

    /// The status for an error that a document has thrown.
    init(_ code: QuireError.Code) {
        switch code {
        case .notFound: self = .notFound
        case .alreadyExists, .constraintConflict, .deleteDenied: self = .conflict
        case .mergeConflict: self = .preconditionFailed
        case .historyTokenExpired: self = .gone
        case .validation, .invalidValue: self = .unprocessableContent
        case .outOfSpace: self = .insufficientStorage
        case .locked, .readOnly, .storeUnavailable, .storeReplaced, .invalidState, .inputOutput,
            .protectedDataUnavailable:
            self = .serviceUnavailable
        default: self = .internalServerError
        }
    }
}

extension HTTPResponse {
    private struct Problem: Encodable {
        var code: String
        var message: String
        var property: String?
        var failures: [Problem]?

        init(code: String, message: String) { (self.code, self.message) = (code, message) }

        init(_ error: QuireError) {
            self.init(code: error.code.rawValue, message: error.message)
            property = error.subject.property
            failures = error.failures.isEmpty ? nil : error.failures.map(Problem.init)
        }
    }

    /// The response for an error. Clients do not learn where on the server's disk the documents are.
    init(_ error: any Error, folder: String) {
        switch error {
        case let error as RequestError:
            self.init(error.status, Problem(code: error.code, message: error.message))
        case var error as QuireError:
            error.message.replace(folder + "/", with: "")
            for index in error.failures.indices {
                error.failures[index].message.replace(folder + "/", with: "")
            }
            self.init(HTTPStatusCode(error.code), Problem(error))
            if statusCode == .serviceUnavailable { headers[HTTPHeader("Retry-After")] = "1" }
        default:
            self.init(
                .internalServerError,
                Problem(code: "internalError", message: "The server could not answer."))
        }
    }
}

// MARK: - JSON

extension HTTPResponse {
    /// A response without a body.
    init(_ status: HTTPStatusCode, headers: HTTPHeaders = [:]) {
        self.init(statusCode: status, headers: headers, body: Data())
    }

    /// A response with a JSON body.
    init(_ status: HTTPStatusCode, _ value: some Encodable, headers: HTTPHeaders = [:]) {
        self.init(status, headers: headers)
        do { try setBody(Self.json(value)) } catch { statusCode = .internalServerError }
    }

    /// A response with a JSON body and its ETag, or the status 304 without a body if the client has the same.
    init(
        _ value: some Encodable, for request: HTTPRequest, status: HTTPStatusCode = .ok,
        headers: HTTPHeaders = [:]
    ) throws {
        let data = try Self.json(value)
        let tag = ETag(data)
        self.init(status, headers: headers)
        self.headers[.eTag] = tag.text
        if let known = request.headers[.ifNoneMatch], request.method == .GET, tag.matches(known) {
            statusCode = .notModified
        } else {
            setBody(data)
        }
    }

    private mutating func setBody(_ json: Data) {
        headers[.contentType] = "application/json"
        payload = .httpBody(HTTPBodySequence(data: json, suggestedBufferSize: 65_536))
    }

    fileprivate static func json(_ value: some Encodable) throws -> Data {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        encoder.dateEncodingStrategy = .iso8601
        return try encoder.encode(value) + Data("\n".utf8)
    }
}

/// The ETag of a content: a digest of its JSON. It is of the content, not the number of a transaction, so that it is also right
/// after a document was deleted and created again from an archive, which brings its own numbers.
struct ETag {
    let text: String

    init(_ data: Data) {
        // FNV-1a, 64 bits. Not a cryptographic digest: whoever can write a colliding content can overwrite the other one anyway.
        var digest: UInt64 = 0xcbf2_9ce4_8422_2325
        for byte in data { digest = (digest ^ UInt64(byte)) &* 0x100_0000_01b3 }
        text = "\"" + String(digest, radix: 16) + "\""
    }

    init(_ value: some Encodable) throws { self.init(try HTTPResponse.json(value)) }

    /// Whether the value of `If-Match` or `If-None-Match` names it.
    func matches(_ header: String) -> Bool {
        header.split(separator: ",").contains { tag in
            let tag = tag.trimmingCharacters(in: .whitespaces)
            return tag == "*" || tag == text || tag == "W/" + text
        }
    }

    /// - Throws: ``RequestError`` with status 412 if the request is for another content.
    func check(_ condition: String?) throws {
        if let condition, !matches(condition) {
            throw RequestError(
                status: .preconditionFailed, code: "preconditionFailed",
                message: "The content was changed since it was read; its ETag is \(text).")
        }
    }
}

// MARK: - Bodies

extension HTTPRequest {
    /// Hands the body to a closure, piece by piece. If it is too large, or the closure throws, it is read to its end all the same:
    /// the next request of the connection begins after it.
    ///
    /// - Throws: ``RequestError`` with status 413, or what the closure throws.
    func receive(limit: Int, _ body: (Data) throws -> Void) async throws {
        var count = 0
        var failure: (any Error)?
        for try await chunk in bodySequence {
            count += chunk.count
            if count > limit || failure != nil { continue }
            do { try body(chunk) } catch { failure = error }
        }
        if count > limit {
            throw RequestError(
                status: .payloadTooLarge, code: "tooLarge",
                message: "The body has more than \(limit) bytes.")
        }
        if let failure { throw failure }
    }
}

extension Decodable {
    /// - Throws: ``RequestError`` with status 400.
    init(body: Data) throws {
        let decoder = JSONDecoder()
        decoder.dateDecodingStrategy = .iso8601
        do { self = try decoder.decode(Self.self, from: body) } catch let error as DecodingError {
            throw RequestError(status: .badRequest, code: "invalidBody", message: error.sentence)
        }
    }
}

extension DecodingError {
    fileprivate var sentence: String {
        switch self {
        case .keyNotFound(let key, _): "The body lacks “\(key.stringValue)”."
        case .typeMismatch(_, let context) where !context.codingPath.isEmpty,
            .valueNotFound(_, let context) where !context.codingPath.isEmpty,
            .dataCorrupted(let context) where !context.codingPath.isEmpty:
            "“\(context.codingPath.map(\.stringValue).joined(separator: "."))” does not have the right type."
        default: "The body is not a JSON object."
        }
    }
}
