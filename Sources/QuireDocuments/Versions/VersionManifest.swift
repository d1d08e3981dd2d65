import Crypto
import Foundation
import Quire

/// The contents of a version. Written once, last of all its parts; only the mark of a resolved conflict follows later, in
/// a file beside it.
///
/// In the file there is a line with its digest before it, so that what is read is what was written. That of a protected
/// document is a sealed file.
struct VersionManifest: Codable, Equatable {
    /// A file of external data.
    struct ExternalFile: Codable, Equatable {
        var size: Int64
        /// The digest of the bytes, if the store has recorded it.
        var sha256: Data?
    }

    static let currentFormat = 1
    /// The greatest size of the file: that of a database of some terabytes, or of millions of files.
    static let maximumSize = 512 << 20

    var format = Self.currentFormat
    var date: Date
    var name: String?
    var reason: DocumentVersion.Reason
    var origin: DocumentVersion.Origin?
    var storeUUID: String
    /// The size of the database.
    var storeSize: Int64
    /// The digests of blocks which hold the digests of blocks which are the database, in order.
    var nodes: Data
    /// The files of external data by their names.
    var externalFiles: [String: ExternalFile]
    /// The generation of additional content that the database names, if it names one.
    var generation: Int?
    /// The sizes of the files of additional content by their paths: ``FileName/key``.
    var content: [String: Int64]
    /// The bytes that keeping it added.
    var addedSize: Int64

    /// The bytes of all it is made of.
    var size: Int64 {
        content.values.reduce(externalFiles.values.reduce(storeSize) { $0 &+ $1.size }, &+)
    }

    /// Whether another version is of the same content.
    func hasSameContent(as other: VersionManifest) -> Bool {
        storeSize == other.storeSize && nodes == other.nodes && externalFiles == other.externalFiles
            && generation == other.generation && content == other.content
    }

    // MARK: - The file

    private static let mark = "QUIRE-VERSION 1 "

    /// The bytes of the file, which are sealed with a key of their own each time.
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
                .invalidFormat, "“\(path)”, which says what is in a version, is damaged.",
                subject: .init(file: path), underlying: underlying)
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
            // Names that others have given to files need not be portable, but must not lead out of the folder.
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
