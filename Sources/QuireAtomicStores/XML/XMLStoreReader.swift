import CLibXML2
package import Foundation
internal import QuireModel
internal import QuireStore
internal import QuireSystem

/// Reads the elements of an XML store.
///
/// Core Data writes `databaseInfo` first, and an identifier for each object; there are stores without, which are read too.
package final class XMLStoreReader {
    private var parser: XMLStoreParser
    private let data: Data
    private let path: String
    /// Whether there are objects before the head.
    private var hasEarlyObjects = false
    /// The highest identifier so far.
    private var maximumKey: Int64 = 0

    /// The elements before the objects.
    package struct Head {
        var metadata: StoreMetadata
        /// The greatest identifier ever used, if the file has it.
        var maximumKey: Int64?
    }

    /// A relationship of an object.
    package struct Relation {
        package let name: String
        let type: String
        let destination: String
        package let keys: [Int64]
    }

    /// An object as it is written.
    package struct Object {
        package let type: String
        /// The number of its identifier; 0 if the file has none.
        package var key: Int64
        package var attributes: [(name: String, type: String, text: String)] = []
        package var relationships: [Relation] = []
    }

    package init(_ data: Data, path: String) throws {
        parser = try XMLStoreParser(data, path: path)
        self.data = data
        self.path = path
    }

    /// Reads the head. Call it first.
    package func head() throws -> Head {
        while let event = try parser.next() {
            guard case .start(let name) = event else { continue }
            guard name == "database" else {
                throw parser.error("it begins with “\(name)” instead of “database”")
            }
            let head = try info()
            maximumKey = max(XMLStore.firstPrimaryKey - 1, head.maximumKey ?? 0)
            return head
        }
        throw parser.error("it does not contain an element")
    }

    private func info() throws -> Head {
        var head: Head?
        while let event = try parser.next() {
            switch event {
            case .text: continue
            case .end: throw parser.error("it has no metadata")
            case .start("databaseInfo"): head = try databaseInfo()
            case .start("object"):
                hasEarlyObjects = true
                try parser.skipElement()
            case .start(let name): throw parser.error("“\(name)” comes before “databaseInfo”")
            }
            if let head { return head }
        }
        throw parser.error("it ends unexpectedly")
    }

    private func databaseInfo() throws -> Head {
        var uuid = ""
        var next: Int64?
        var values: [String: PropertyListValue] = [:]
        try parser.forEachElement { name in
            switch name {
            case "UUID":
                uuid = try parser.textOfElement().trimmingCharacters(in: .whitespacesAndNewlines)
            case "nextObjectID":
                next = Int64(
                    try parser.textOfElement().trimmingCharacters(in: .whitespacesAndNewlines))
            case "metadata":
                try parser.forEachElement { name in
                    guard name == "plist" else { return try parser.skipElement() }
                    try parser.forEachElement { name in
                        guard case .dictionary(let found) = try XMLPropertyList.read(name, parser)
                        else { throw parser.error("the metadata is not a dictionary") }
                        values = found
                    }
                }
            default: try parser.skipElement()
            }
        }
        guard !uuid.isEmpty, !uuid.contains("/"), uuid.utf8.count <= 255 else {
            throw parser.error("it has no UUID")
        }
        values[StoreMetadata.Key.storeType] = .string(StoreType.xml.rawValue)
        return Head(
            metadata: StoreMetadata(storeUUID: uuid.uppercased(), values: values),
            maximumKey: next)
    }

    /// Calls a closure with each object. Call it after ``head()``.
    /// Objects without an identifier come last, and get those after the greatest one, in file order: the same on every read.
    /// whenever the file is read.
    package func forEachObject(_ body: (Object) throws -> Void) throws {
        if hasEarlyObjects {
            parser = try XMLStoreParser(data, path: path)
            while let event = try parser.next() { if case .start = event { break } }
        }
        var unnumbered: [Object] = []
        try parser.forEachElement { name in
            guard name == "object" else { return try parser.skipElement() }
            let object = try object()
            maximumKey = max(maximumKey, object.key)
            if object.key == 0 { unnumbered.append(object) } else { try body(object) }
        }
        for var object in unnumbered {
            guard maximumKey < ManagedObjectID.maximumPrimaryKey else {
                throw parser.error("no identifier is left for an object without one")
            }
            maximumKey += 1
            object.key = maximumKey
            try body(object)
        }
    }

    private func object() throws -> Object {
        guard let type = parser.attribute("type") else {
            throw parser.error("an object has no type")
        }
        let id = parser.attribute("id") ?? ""
        guard let key = id.isEmpty ? 0 : Self.key(id) else {
            throw parser.error(
                "an object of type \(type) has the invalid identifier “\(id.prefix(40))”"
            )
        }
        var object = Object(type: type, key: key)
        try parser.forEachElement { element in
            switch element {
            case "attribute":
                let name = try requireName("an attribute", of: object)
                let type = parser.attribute("type") ?? ""
                object.attributes.append((name, type, try parser.textOfElement()))
            case "relationship":
                object.relationships.append(try relation(of: object))
            default: try parser.skipElement()
            }
        }
        return object
    }

    private func relation(of object: Object) throws -> Relation {
        let name = try requireName("a relationship", of: object)
        let type = parser.attribute("type") ?? ""
        let destination = parser.attribute("destination") ?? ""
        var keys: [Int64] = []
        for text in (parser.attribute("idrefs") ?? "").split(separator: " ") {
            guard let key = Self.key(text) else {
                throw parser.error(
                    "“\(name)” refers to “\(text.prefix(40))”, which is not an identifier")
            }
            keys.append(key)
        }
        try parser.skipElement()
        return Relation(name: name, type: type, destination: destination, keys: keys)
    }

    private func requireName(_ what: String, of object: Object) throws -> String {
        guard let name = parser.attribute("name"), !name.isEmpty else {
            throw parser.error("the object z\(object.key) has \(what) without a name")
        }
        return name
    }

    /// The primary key of an identifier such as `z102`.
    private static func key(_ text: some StringProtocol) -> Int64? {
        guard text.hasPrefix("z"), let key = Int64(text.dropFirst()), key > 0,
            key <= ManagedObjectID.maximumPrimaryKey
        else { return nil }
        return key
    }
}

// MARK: - The parser

/// Reads XML element by element, through libxml2's reader.
///
/// The text is untrusted. So nothing is fetched from the network or from other files; a document type declaration may name
/// Core Data's, which is not read, but must not declare anything, which excludes entities; and elements nested more deeply
/// than any store's are refused.
final class XMLStoreParser {
    /// A parser event.
    enum Event {
        /// An element begins. One without content has an end all the same.
        case start(String)
        /// The innermost open element ends.
        case end
        /// Characters between tags, or a part of them.
        case text(String)
    }

    private let reader: xmlTextReaderPtr
    private let data: NSData
    private let path: String
    private var depth = 0
    private var endsEmptyElement = false

    /// Metadata is six deep, objects are two.
    static let maximumDepth = 64
    /// The most bytes that libxml2 reads from memory.
    static let maximumSize = Int(Int32.max)
    /// The size up to which libxml2's own limits apply. They are lifted for larger files, as values may be large.
    private static let usualSize = 10 << 20

    /// Begins a text.
    init(_ data: Data, path: String) throws {
        self.path = path
        guard data.count < Int(Int32.max) else {
            throw QuireError(
                .unsupported,
                "“\(path)” has \(data.count) bytes, too many for an XML store; use a SQLite store.",
                file: path)
        }
        guard !data.isEmpty else {
            throw QuireError(
                .invalidFormat, "“\(path)” is empty, so it is not a store.", file: path)
        }
        guard data.count <= Self.maximumSize else {
            throw QuireError(
                .unsupported,
                "“\(path)” exceeds the limit of \(Self.maximumSize) bytes for an XML store; use a SQLite store.",
                file: path)
        }
        xmlInitParser()
        xmlResetLastError()
        self.data = data as NSData
        var options =
            XML_PARSE_NONET.rawValue | XML_PARSE_NOERROR.rawValue | XML_PARSE_NOWARNING.rawValue
            | XML_PARSE_BIG_LINES.rawValue | XML_PARSE_NOCDATA.rawValue
        if data.count > Self.usualSize { options |= XML_PARSE_HUGE.rawValue }
        guard
            let reader = xmlReaderForMemory(
                self.data.bytes.assumingMemoryBound(to: CChar.self), Int32(data.count), nil, nil,
                Int32(options))
        else {
            throw QuireError(.invalidFormat, "“\(path)” cannot be read as XML.", file: path)
        }
        self.reader = reader
    }

    deinit { xmlFreeTextReader(reader) }

    /// The next event; `nil` at the end of the text.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat`, naming the line.
    func next() throws -> Event? {
        if endsEmptyElement {
            endsEmptyElement = false
            depth -= 1
            return .end
        }
        while true {
            switch xmlTextReaderRead(reader) {
            case 1: break
            case 0: return nil
            default: throw parsingError()
            }
            switch UInt32(bitPattern: xmlTextReaderNodeType(reader)) {
            case XML_READER_TYPE_ELEMENT.rawValue:
                if depth == Self.maximumDepth {
                    throw error("elements are nested more than \(Self.maximumDepth) deep")
                }
                depth += 1
                endsEmptyElement = xmlTextReaderIsEmptyElement(reader) == 1
                return .start(text(xmlTextReaderConstName(reader)))
            case XML_READER_TYPE_END_ELEMENT.rawValue:
                depth -= 1
                return .end
            case XML_READER_TYPE_TEXT.rawValue, XML_READER_TYPE_CDATA.rawValue,
                XML_READER_TYPE_SIGNIFICANT_WHITESPACE.rawValue,
                XML_READER_TYPE_WHITESPACE.rawValue:
                return .text(text(xmlTextReaderConstValue(reader)))
            case XML_READER_TYPE_DOCUMENT_TYPE.rawValue: try checkDocumentType()
            case XML_READER_TYPE_ENTITY_REFERENCE.rawValue:
                throw error("it contains an entity reference, which is not allowed in a store")
            default: break  // Comments and processing instructions.
            }
        }
    }

    /// The value of an attribute of the element that has just begun.
    func attribute(_ name: String) -> String? {
        guard xmlTextReaderMoveToAttribute(reader, name) == 1 else { return nil }
        defer { _ = xmlTextReaderMoveToElement(reader) }
        return text(xmlTextReaderConstValue(reader))
    }

    private func checkDocumentType() throws {
        guard let node = xmlTextReaderCurrentNode(reader) else { return }
        if node.pointee.children != nil {
            throw error("its document type contains declarations, which are not allowed in a store")
        }
    }

    // MARK: - Errors

    /// An error at the current position.
    func error(_ reason: String) -> QuireError {
        let line = Int(xmlTextReaderGetParserLineNumber(reader))
        return QuireError(
            .invalidFormat,
            "“\(path)” is not a readable XML store: \(reason)\(line > 0 ? " (line \(line))" : "").",
            file: path, position: line > 0 ? line : nil)
    }

    private func parsingError() -> QuireError {
        guard let last = xmlGetLastError(), let message = last.pointee.message else {
            return error("it is not well-formed")
        }
        let sentence = String(cString: message).trimmingCharacters(in: .whitespacesAndNewlines)
        return error("it is not well-formed (\(sentence))")
    }

    private func text(_ characters: UnsafePointer<xmlChar>?) -> String {
        characters.map { String(cString: $0) } ?? ""
    }
}

extension XMLStoreParser {
    /// The text of the element that has just begun, to its end. It has no elements in it.
    func textOfElement() throws -> String {
        var result = ""
        while let event = try next() {
            switch event {
            case .text(let text): if result.isEmpty { result = text } else { result += text }
            case .end: return result
            case .start(let name): throw error("the element “\(name)” is inside text")
            }
        }
        throw error("it ends unexpectedly")
    }

    /// Skips the rest of the current element.
    func skipElement() throws {
        var open = 1
        while open > 0 {
            switch try next() {
            case .start?: open += 1
            case .end?: open -= 1
            case .text?: break
            case nil: throw error("it ends unexpectedly")
            }
        }
    }

    /// Calls a closure with the name of each child of the current element, to its end. The closure consumes the child.
    func forEachElement(_ body: (String) throws -> Void) throws {
        while let event = try next() {
            switch event {
            case .start(let name): try body(name)
            case .end: return
            case .text(let text):
                guard text.utf8.allSatisfy({ $0 == 0x20 || (0x09...0x0D).contains($0) }) else {
                    throw error("it has text between elements")
                }
            }
        }
        throw error("it ends unexpectedly")
    }
}
