import Foundation
import Quire

/// A value as a comparison shows it: bytes by their number and digest, never themselves.
enum ComparedValue {
    case value(PrintedValue)
    case bytes(count: Int, sha256: Data)

    /// A value of an attribute or a to-one relationship. Of one in a file only the digest is read, if the store has it.
    ///
    /// - Parameter unreadable: Takes notice of a value in a file that cannot be read, which the value says as well.
    init(_ value: AttributeValue, _ type: AttributeType, noting unreadable: UnreadableValues) {
        switch value {
        case .objectID(let id): self = .value(.object(id))
        case .binary(let data):
            self = .bytes(count: data.count, sha256: RunningDigest.sha256(of: data))
        case .external(let data):
            do {
                self = .bytes(count: data.size, sha256: try Self.digest(of: data))
            } catch {
                let error = FileSystem.failure("read", data.path, thrown: error)
                unreadable.add(error)
                self = .value(.unreadable(error.message))
            }
        default: self = .value(type == .undefined ? PrintedValue(value) : .attribute(value, type))
        }
    }

    private static func digest(of data: ExternalData) throws -> Data {
        if let digest = data.sha256 { return digest }
        let digest = RunningDigest()
        try data.forEachBlock(digest.update)
        return digest.sha256
    }

    var json: JSONValue {
        switch self {
        case .value(let value): value.json
        case .bytes(let count, let digest):
            .object([
                "bytes": .integer(Int64(count)), "sha256": .string(Self.hexadecimal(digest)),
            ])
        }
    }

    /// The value on one line, so that a text differs from a number.
    var text: String {
        switch self {
        case .value(.attribute(.string(let text), _)): JSONValue.string(text).text()
        case .value(.attribute(.null, _)), .value(.object(nil)): "null"
        case .value(let value): value.text
        case .bytes(let count, let digest):
            "<\(Count.of(count, "byte")), sha256 \(Self.hexadecimal(digest).prefix(12))>"
        }
    }

    static func hexadecimal(_ digest: Data) -> String {
        digest.map { String(format: "%02x", $0) }.joined()
    }
}
