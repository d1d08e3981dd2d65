package import Foundation
import Quire
import QuireStore

/// Writes the objects of a page: `script` elements of JSON, each with a batch of rows of one entity, and `script` elements of
/// base64 with the pictures of a batch before it.
///
/// A row is an array: the object's key, and the values of the entity's columns. A related object is its identifier, such as
/// `Book/p12`. Bytes are `{"bytes": 1204}`, and with `"picture": 7, "type": "image/png"` if the page has them.
struct PageObjects {
    private let store: any PersistentStore
    private let file: OpenFile
    private let pictures: PagePictures
    private let progress: Progress?
    /// The page, in errors.
    private let path: String
    /// The rows of the batch.
    private var rows = PageJSON()
    private var pictureCount = 0
    private var pictureSize = 0
    /// The number of pictures that are beyond the limits.
    private(set) var omittedPictures = 0

    /// The size from which a batch is written.
    private static let batchSize = 1 << 18
    /// The number of bytes of a picture that are read at once; three bytes are four characters of base64.
    private static let pieceSize = 3 << 17

    init(
        of store: any PersistentStore, to file: OpenFile, pictures: PagePictures,
        progress: Progress?, path: String
    ) {
        self.store = store
        self.file = file
        self.pictures = pictures
        self.progress = progress
        self.path = path
    }

    /// Writes the objects of exactly one entity.
    ///
    /// - Returns: Their number.
    mutating func write(_ entity: ResolvedEntity, _ columns: [PageColumn]) throws -> Int {
        let toMany = columns.compactMap {
            if case .toMany(let relationship) = $0 { relationship } else { nil }
        }
        let cursor = try ObjectCursor(entity, of: store, toMany: toMany)
        var count = 0
        while let object = try cursor.next() {
            try checkCancelled()
            rows.append(raw: rows.bytes.isEmpty ? "[" : ",")
            try append(object, columns, cursor)
            count += 1
            progress?.completedUnitCount += 1
            if rows.bytes.count >= Self.batchSize { try writeBatch(of: entity) }
        }
        try writeBatch(of: entity)
        return count
    }

    private func checkCancelled() throws {
        try progress?.checkCancelled("The export to “\(path)” was cancelled.", file: path)
    }

    private mutating func writeBatch(of entity: ResolvedEntity) throws {
        if rows.bytes.isEmpty { return }
        rows.append(raw: "]")
        // Names of entities are letters, digits and underscores.
        try file.write(
            Data("<script type=\"application/json\" data-entity=\"\(entity.name)\">".utf8))
        try rows.bytes.withUnsafeBytes { try file.write($0) }
        try file.write(Data("</script>\n".utf8))
        rows.removeAll()
    }

    private mutating func append(
        _ object: ObjectSnapshot, _ columns: [PageColumn], _ cursor: ObjectCursor
    ) throws {
        let name = object.objectID.shortDescription
        rows.append(raw: "[")
        rows.append(String(name.dropFirst(object.entity.name.count + 1)))
        for column in columns {
            rows.append(raw: ",")
            switch column {
            case .slot(let slot): try append(slot, of: object)
            case .toMany(let relationship):
                rows.append(raw: "[")
                for (index, id) in cursor.members(object, relationship).enumerated() {
                    if index > 0 { rows.append(raw: ",") }
                    rows.append(id.shortDescription)
                }
                rows.append(raw: "]")
            }
        }
        rows.append(raw: "]")
    }

    private mutating func append(_ slot: ResolvedEntity.Slot, of object: ObjectSnapshot) throws {
        do {
            switch try Self.reading({ try object.valueWithoutLoading(at: slot.index) }) {
            case .binary(let data): try append(ExternalData(data), of: slot)
            case .external(let data): try append(data, of: slot)
            case let value: rows.append(value, as: slot.attribute?.type ?? .objectID)
            }
        } catch let error as UnreadableValue {
            rows.append(raw: "{\"unreadable\":")
            rows.append(error.reason)
            rows.append(raw: "}")
        }
    }

    /// A value could not be read, which does not keep the others from being looked at.
    private struct UnreadableValue: Error {
        /// The reason, as a sentence.
        var reason: String
    }

    private static func reading<Result>(_ body: () throws -> Result) throws -> Result {
        do { return try body() } catch let error as QuireError
            where error.code != .protectedDataUnavailable
        {
            throw UnreadableValue(reason: error.message)
        }
    }

    // MARK: - Pictures

    /// Appends bytes: their number, and a picture's number in the page.
    private mutating func append(_ data: ExternalData, of slot: ResolvedEntity.Slot) throws {
        // The file is opened once, and stays the same file.
        let (data, firstBytes) = try Self.reading {
            let data = try data.opened(ownedBy: .init(property: slot.name))
            return (data, try data.read(12, at: 0))
        }
        let size = data.size
        let isPicture = slot.attribute?.type == .binary
        let type = isPicture ? PictureType(ofFirstBytes: firstBytes) : nil
        guard let type else { return rows.append(raw: "{\"bytes\":\(size)}") }
        guard size <= pictures.maximumSize, size <= pictures.maximumTotalSize - pictureSize else {
            omittedPictures += 1
            return rows.append(raw: "{\"bytes\":\(size)}")
        }
        pictureCount += 1
        pictureSize += size
        try write(data, size)
        rows.append(
            raw: "{\"bytes\":\(size),\"picture\":\(pictureCount),\"type\":\"\(type.rawValue)\"}")
    }

    /// Writes a picture. If it cannot be read to its end, no row refers to its element.
    private func write(_ data: ExternalData, _ size: Int) throws {
        try file.write(Data("<script type=\"text/plain\" id=\"picture-\(pictureCount)\">".utf8))
        let result = Result {
            var offset = 0
            while offset < size {
                try checkCancelled()
                let piece = try Self.reading {
                    try data.read(min(Self.pieceSize, size - offset), at: offset)
                }
                if piece.isEmpty { break }
                offset += piece.count
                try file.write(piece.base64EncodedData())
            }
        }
        try file.write(Data("</script>\n".utf8))
        try result.get()
    }
}

/// The types of pictures that a page shows. All of them are only pixels; SVG is not among them.
package enum PictureType: String {
    case png = "image/png"
    case jpeg = "image/jpeg"
    case gif = "image/gif"
    case webP = "image/webp"

    /// The type of a file that begins with some bytes.
    package init?(ofFirstBytes bytes: Data) {
        func hasBytes(_ expected: String, at offset: Int) -> Bool {
            bytes.dropFirst(offset).starts(with: expected.unicodeScalars.map { UInt8($0.value) })
        }
        if hasBytes("\u{89}PNG\r\n\u{1A}\n", at: 0) {
            self = .png
        } else if hasBytes("\u{FF}\u{D8}\u{FF}", at: 0) {
            self = .jpeg
        } else if hasBytes("GIF87a", at: 0) || hasBytes("GIF89a", at: 0) {
            self = .gif
        } else if hasBytes("RIFF", at: 0), hasBytes("WEBP", at: 8) {
            self = .webP
        } else {
            return nil
        }
    }
}
