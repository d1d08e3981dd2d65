import Crypto
import Foundation
import Quire

/// The manifest of a version. It is the last part to be written, and never changes; only the mark of a resolved conflict is
/// added later, in a file beside it.
///
/// The file begins with a line that contains the manifest's digest, which is verified on reading. In a protected document the
/// file is sealed.
struct VersionManifest: Codable, Equatable {
    /// An external data file.
    struct ExternalFile: Codable, Equatable {
        var size: Int64
        /// The digest of the bytes, if the store has recorded it.
        var sha256: Data?
    }

    static let currentFormat = 1
    /// The maximum size of the file: enough for a database of some terabytes, or millions of files.
    static let maximumSize = 512 << 20

    var format = Self.currentFormat
    var date: Date
    var name: String?
    var reason: DocumentVersion.Reason
    var origin: DocumentVersion.Origin?
    var storeUUID: String
    /// The size of the database.
    var storeSize: Int64
    /// The digests of the nodes, in order. Each node contains the digests of the database's blocks.
    var nodes: Data
    /// The external data files by name.
    var externalFiles: [String: ExternalFile]
    /// The generation of additional content that the database refers to, if any.
    var generation: Int?
    /// The sizes of the additional content files by path: ``FileName/key``.
    var content: [String: Int64]
    /// The number of bytes that the version added to the package.
    var addedSize: Int64

    /// The total size of the version's content, in bytes.
    var size: Int64 {
        content.values.reduce(externalFiles.values.reduce(storeSize) { $0 &+ $1.size }, &+)
    }

    /// Whether another version has the same content.
    func hasSameContent(as other: VersionManifest) -> Bool {
        storeSize == other.storeSize && nodes == other.nodes && externalFiles == other.externalFiles
            && generation == other.generation && content == other.content
    }

    // MARK: - The file

    private static let mark = "QUIRE-VERSION 1 "

    /// The bytes of the file, sealed with a new file key in each call.
    ///
    /// - Parameter path: The path of the file, for errors.
    func data(sealedBy classKey: ClassKey?, path: String) throws -> Data {
        let data = try data()
        return try classKey?.sealed(data, path: path) ?? data
    }

    private func data() throws -> Data {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys]
        let body = try encoder.encode(self)
        return Data((Self.mark + SHA256.hash(data: body).hexadecimal + "\n").utf8) + body
    }

    /// Reads a manifest.
    ///
    /// - Throws: ``QuireError`` with code `notFound`, `invalidFormat`, `unsupported` or `protectedDataUnavailable`.
    init(
        contentsOf path: String, beneath root: String, unsealing classKey: ClassKey?
    ) throws {
        let file = try FileSystem.contents(of: path, beneath: root, limit: Self.maximumSize)
        let data = try classKey?.unsealed(file, path: path) ?? file
        func damaged(_ underlying: (any Error)? = nil) -> QuireError {
            QuireError(
                .invalidFormat, "The version manifest “\(path)” is damaged.",
                file: path, underlying: underlying)
        }
        guard let lineEnd = data.firstIndex(of: UInt8(ascii: "\n")) else { throw damaged() }
        let body = data[(lineEnd + 1)...]
        let expected = Self.mark + SHA256.hash(data: body).hexadecimal
        guard data[..<lineEnd].elementsEqual(expected.utf8) else { throw damaged() }
        do {
            self = try JSONDecoder().decode(VersionManifest.self, from: body)
        } catch {
            throw damaged(error)
        }
        if format > Self.currentFormat {
            throw QuireError.newerFormat(
                "“\(path)”", format, readable: Self.currentFormat, file: path)
        }
        let sizes = externalFiles.values.map(\.size) + content.values + [storeSize, addedSize]
        guard sizes.allSatisfy({ $0 >= 0 && $0 <= 1 << 50 }),
            nodes.count % BlockDigest.byteCount == 0, generation ?? 1 > 0,
            externalFiles.keys.allSatisfy({ $0.utf8.count == 36 && UUID(uuidString: $0) != nil }),
            // Names of existing files need not be portable, but must stay within the folder.
            content.keys.allSatisfy({
                FileSystem.components(of: $0).allSatisfy {
                    !["", ".", ".."].contains($0) && !$0.utf8.contains(0)
                }
            })
        else { throw damaged() }
    }

    init(
        date: Date, name: String?, reason: DocumentVersion.Reason, origin: DocumentVersion.Origin?,
        storeUUID: String
    ) {
        self.date = date
        self.name = name
        self.reason = reason
        self.origin = origin
        self.storeUUID = storeUUID
        storeSize = 0
        nodes = Data()
        externalFiles = [:]
        content = [:]
        addedSize = 0
    }
}
