public import Foundation
internal import Logging

// The encoding, all integers in LEB128 unless their size is given:
//
//     draft   = "QDRAFT" version:1 layers
//     layer   = inserted updated deleted, each a count and that many
//     change  = object entity:name version values members
//     value   = name kind:1 content
//     members = name added removed hasOrder:1 [order], each a count and that many references
//     name    = 0 text, or 1 + the index of a name encoded before
//     text    = count and that many bytes of UTF-8

extension ObjectDraft {
    static let signature: [UInt8] = Array("QDRAFT".utf8)
    /// The version of the form.
    static let formatVersion: UInt8 = 1

    /// Encodes the draft for ``init(decoding:)``. Equal drafts have equal bytes.
    ///
    /// - Complexity: O(*n*) in the size of the values.
    public func encoded() -> Data {
        var writer = DraftWriter()
        writer.bytes += Self.signature
        writer.bytes.append(Self.formatVersion)
        writer.list(layers) { writer, layer in
            writer.list(layer.inserted) { $0.change($1) }
            writer.list(layer.updated) { $0.change($1) }
            writer.list(layer.deleted) {
                $0.reference($1.object)
                $0.integer(UInt64($1.version))
            }
        }
        return Data(writer.bytes)
    }

    /// Decodes a draft.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat` if the bytes are not a valid draft, `unsupported` if a newer version
    ///   has encoded them.
    public init(decoding bytes: Data) throws {
        layers = try bytes.withUnsafeBytes { bytes in
            var reader = DraftReader(bytes)
            return try reader.draft()
        }
    }
}

/// The first byte of a value.
enum DraftValueKind: UInt8 {
    case null, integer, double, no, yes, decimal, string, date, binary, uuid, uri, object
}

/// Writes a draft's bytes.
private struct DraftWriter {
    var bytes: [UInt8] = []
    private var names: [String: Int] = [:]

    mutating func integer(_ value: UInt64) {
        var rest = value
        while rest >= 0x80 {
            bytes.append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        bytes.append(UInt8(rest))
    }

    mutating func list<Element>(_ elements: [Element], _ write: (inout Self, Element) -> Void) {
        integer(UInt64(elements.count))
        for element in elements { write(&self, element) }
    }

    mutating func text(_ text: String) {
        integer(UInt64(text.utf8.count))
        bytes += text.utf8
    }

    mutating func name(_ name: String) {
        if let place = names[name] { return integer(UInt64(place + 1)) }
        names[name] = names.count
        integer(0)
        text(name)
    }

    mutating func reference(_ reference: ObjectDraft.Reference) {
        switch reference {
        case .new(let number):
            bytes.append(0)
            integer(UInt64(number))
        case .saved(let entity, let key, let store):
            bytes.append(store == nil ? 1 : 2)
            name(entity)
            integer(UInt64(key))
            if let store { name(store) }
        }
    }

    mutating func change(_ change: ObjectDraft.Change) {
        reference(change.object)
        name(change.entity)
        integer(UInt64(change.version))
        list(change.values.compactMap { Self.loadingExternalData($0, of: change) }) {
            $0.name($1.name)
            $0.value($1.value)
        }
        list(change.members) { writer, members in
            writer.name(members.name)
            writer.list(members.added) { $0.reference($1) }
            writer.list(members.removed) { $0.reference($1) }
            writer.bytes.append(members.order == nil ? 0 : 1)
            if let order = members.order { writer.list(order) { $0.reference($1) } }
        }
    }

    mutating func value(_ value: ObjectDraft.Value) {
        func kind(_ kind: DraftValueKind) { bytes.append(kind.rawValue) }
        switch value {
        case .object(let object):
            kind(.object)
            reference(object)
        case .attribute(.integer(let integer)):
            kind(.integer)
            // Zigzag, so that small negative numbers are short too.
            self.integer(UInt64(bitPattern: (integer << 1) ^ (integer >> 63)))
        case .attribute(.double(let double)):
            kind(.double)
            bytes.append(littleEndian: double.bitPattern)
        case .attribute(.boolean(let boolean)): kind(boolean ? .yes : .no)
        case .attribute(.decimal(let decimal)):
            kind(.decimal)
            // As rows have it: exponent, length and signs, and the mantissa's words.
            withUnsafeBytes(of: decimal) { bytes += $0 }
        case .attribute(.string(let string)):
            kind(.string)
            text(string)
        case .attribute(.date(let date)):
            kind(.date)
            bytes.append(littleEndian: date.timeIntervalSinceReferenceDate.bitPattern)
        case .attribute(.binary(let data)):
            kind(.binary)
            integer(UInt64(data.count))
            bytes += data
        case .attribute(.uuid(let uuid)):
            kind(.uuid)
            withUnsafeBytes(of: uuid.uuid) { bytes += $0 }
        case .attribute(.uri(let uri)):
            kind(.uri)
            text(uri.absoluteString)
        // A draft has references instead of identifiers, elements instead of composites, and the bytes of external data.
        case .attribute(.null), .attribute(.objectID), .attribute(.composite),
            .attribute(.external):
            kind(.null)
        }
    }

    /// A property with its bytes: a draft outlives the file of a value that is not saved. `nil` if the file cannot be read;
    /// a null value would replace the saved one.
    private static func loadingExternalData(
        _ property: ObjectDraft.Property, of change: ObjectDraft.Change
    ) -> ObjectDraft.Property? {
        guard case .attribute(.external(let value)) = property.value else { return property }
        do {
            return .init(name: property.name, value: .attribute(.binary(try value.contents())))
        } catch {
            Logger(label: "quire.context").error(
                "“\(change.entity).\(property.name)” cannot be read and is not in the draft: \(error)"
            )
            return nil
        }
    }
}

/// Decodes a draft's bytes, which are untrusted.
private struct DraftReader {
    private let bytes: UnsafeRawBufferPointer
    private var position = 0
    private var names: [String] = []
    /// The number of new objects up to the layer being read.
    private var newCount = 0

    init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    private func damaged(_ what: String) -> QuireError {
        QuireError(
            .invalidFormat,
            "The draft cannot be read: \(what) at byte \(position) of \(bytes.count).")
    }

    mutating func draft() throws -> [ObjectDraft.Layer] {
        guard bytes.starts(with: ObjectDraft.signature) else { throw damaged("it is not a draft") }
        position = ObjectDraft.signature.count
        let version = try byte()
        guard version <= ObjectDraft.formatVersion else {
            throw QuireError.newerFormat(
                "The draft", version, readable: ObjectDraft.formatVersion)
        }
        guard version > 0 else { throw damaged("it has no version") }
        let layers = try list { reader in
            var layer = ObjectDraft.Layer()
            // A new object may refer to a later one, so numbers are checked after the layer is read.
            let before = reader.newCount
            reader.newCount = Int.max
            layer.inserted = try reader.list { try $0.change() }
            reader.newCount = before + layer.inserted.count
            for (offset, change) in layer.inserted.enumerated() {
                guard change.object == .new(before + offset) else {
                    throw reader.damaged("a new object is numbered wrongly")
                }
                try reader.checkReferences(of: change)
            }
            layer.updated = try reader.list { try $0.change() }
            layer.deleted = try reader.list {
                ObjectDraft.Deletion(object: try $0.reference(), version: try $0.version())
            }
            return layer
        }
        guard position == bytes.count else { throw damaged("data follows its end") }
        return layers
    }

    private func checkReferences(of change: ObjectDraft.Change) throws {
        func check(_ reference: ObjectDraft.Reference) throws {
            if case .new(let number) = reference, number >= newCount {
                throw damaged("it refers to a new object that does not exist")
            }
        }
        for property in change.values {
            if case .object(let reference) = property.value { try check(reference) }
        }
        for members in change.members {
            for reference in members.added + members.removed + (members.order ?? []) {
                try check(reference)
            }
        }
    }

    private mutating func byte() throws -> UInt8 {
        guard position < bytes.count else { throw damaged("it ends early") }
        defer { position += 1 }
        return bytes[position]
    }

    private mutating func integer() throws -> UInt64 {
        var value: UInt64 = 0
        var shift: UInt64 = 0
        while true {
            let next = try byte()
            let bits = UInt64(next & 0x7F)
            guard shift < 63 || (shift == 63 && bits <= 1) else {
                throw damaged("a number is too large")
            }
            value |= bits << shift
            if next & 0x80 == 0 { return value }
            shift += 7
        }
    }

    /// A number of things that each take a byte at least.
    private mutating func count() throws -> Int {
        let value = try integer()
        guard value <= UInt64(bytes.count - position) else { throw damaged("it ends early") }
        return Int(value)
    }

    private mutating func list<Element>(
        _ read: (inout Self) throws -> Element
    ) throws -> [Element] {
        var elements: [Element] = []
        for _ in 0..<(try count()) { elements.append(try read(&self)) }
        return elements
    }

    private mutating func take(_ count: Int) throws -> UnsafeRawBufferPointer {
        guard count <= bytes.count - position else { throw damaged("it ends early") }
        defer { position += count }
        return UnsafeRawBufferPointer(rebasing: bytes[position..<position + count])
    }

    private mutating func text() throws -> String {
        let text = try take(count())
        guard let string = String(validating: text, as: UTF8.self) else {
            throw damaged("a text is not UTF-8")
        }
        return string
    }

    private mutating func name() throws -> String {
        let place = try integer()
        if place == 0 {
            let name = try text()
            names.append(name)
            return name
        }
        guard place <= UInt64(names.count) else { throw damaged("a name is missing") }
        return names[Int(place) - 1]
    }

    private mutating func fixed() throws -> UInt64 {
        UInt64(littleEndian: try take(8).loadUnaligned(as: UInt64.self))
    }

    private mutating func version() throws -> UInt32 {
        guard let version = UInt32(exactly: try integer()) else {
            throw damaged("a version is too large")
        }
        return version
    }

    private mutating func reference() throws -> ObjectDraft.Reference {
        let kind = try byte()
        switch kind {
        case 0:
            let number = try integer()
            guard number < UInt64(newCount) else {
                throw damaged("it refers to a new object that does not exist")
            }
            return .new(Int(number))
        case 1, 2:
            let entity = try name()
            let key = try integer()
            guard key > 0, key <= UInt64(ManagedObjectID.maximumPrimaryKey) else {
                throw damaged("an object has no identifier")
            }
            return .saved(
                entity: entity, key: Int64(key), store: kind == 2 ? try name() : nil)
        default: throw damaged("an object is of an unknown kind")
        }
    }

    private mutating func change() throws -> ObjectDraft.Change {
        ObjectDraft.Change(
            object: try reference(), entity: try name(), version: try version(),
            values: try list { ObjectDraft.Property(name: try $0.name(), value: try $0.value()) },
            members: try list { reader in
                ObjectDraft.Members(
                    name: try reader.name(), added: try reader.list { try $0.reference() },
                    removed: try reader.list { try $0.reference() },
                    order: try reader.byte() == 0 ? nil : try reader.list { try $0.reference() })
            })
    }

    private mutating func decimal() throws -> Decimal {
        let bytes = try take(MemoryLayout<Decimal>.size)
        // A length of more words than there are would have arithmetic read beyond them.
        guard bytes[1] >> 4 <= 8, bytes[1] & 0x03 == 0, bytes[2] == 0, bytes[3] == 0 else {
            throw damaged("a decimal number is malformed")
        }
        return bytes.loadUnaligned(as: Decimal.self)
    }

    private mutating func value() throws -> ObjectDraft.Value {
        guard let kind = DraftValueKind(rawValue: try byte()) else {
            throw damaged("a value is of an unknown kind")
        }
        switch kind {
        case .null: return .attribute(.null)
        case .integer:
            let bits = try integer()
            return .attribute(.integer(Int64(bitPattern: bits >> 1) ^ -Int64(bits & 1)))
        case .double: return .attribute(.double(Double(bitPattern: try fixed())))
        case .no: return .attribute(.boolean(false))
        case .yes: return .attribute(.boolean(true))
        case .decimal: return .attribute(.decimal(try decimal()))
        case .string: return .attribute(.string(try text()))
        case .date:
            let interval = Double(bitPattern: try fixed())
            return .attribute(.date(Date(timeIntervalSinceReferenceDate: interval)))
        case .binary: return .attribute(.binary(Data(try take(count()))))
        case .uuid:
            return .attribute(.uuid(UUID(uuid: try take(16).loadUnaligned(as: uuid_t.self))))
        case .uri:
            guard let uri = URL(string: try text()) else {
                throw damaged("a URI is malformed")
            }
            return .attribute(.uri(uri))
        case .object: return .object(try reference())
        }
    }
}
