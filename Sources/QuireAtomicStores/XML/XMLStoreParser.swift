import CLibXML2
import Foundation
internal import QuireSystem

/// Reads an XML text element by element, through libxml2's reader.
///
/// The text may come from anywhere. So nothing is fetched from the network or from other files; a document type
/// declaration may name Core Data's, which is not read, but must declare nothing itself, which is where entities would
/// come from; and elements nested more deeply than any store's are refused.
final class XMLStoreParser {
    /// What comes next.
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
    static let greatestDepth = 64
    /// The most bytes that libxml2 reads from memory.
    static let greatestSize = Int(Int32.max)
    /// What libxml2's own limits are made for. Beyond it they must go, as values may be large.
    private static let usualSize = 10 << 20

    /// Begins a text.
    init(_ data: Data, path: String) throws {
        self.path = path
        guard data.count < Int(Int32.max) else {
            throw QuireError(
                .unsupported,
                "“\(path)” has \(data.count) bytes, more than an XML store is read with; use a SQLite store.",
                subject: .init(file: path))
        }
        guard !data.isEmpty else {
            throw QuireError(
                .invalidFormat, "“\(path)” is empty, so it is no store.", subject: .init(file: path)
            )
        }
        guard data.count <= Self.greatestSize else {
            throw QuireError(
                .unsupported,
                "“\(path)” is larger than \(Self.greatestSize) bytes, which is more than can be read as XML.",
                subject: .init(file: path))
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
            throw QuireError(
                .invalidFormat, "“\(path)” cannot be read as XML.", subject: .init(file: path))
        }
        self.reader = reader
    }

    deinit { xmlFreeTextReader(reader) }

    /// What comes next; `nil` at the end of the text.
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
                if depth == Self.greatestDepth {
                    throw error("elements are nested more than \(Self.greatestDepth) deep")
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
                throw error("there is an entity, which stores never have")
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
            throw error("its document type declaration declares something, which no store's does")
        }
    }

    // MARK: - Errors

    /// An error at the current place.
    func error(_ reason: String) -> QuireError {
        let line = Int(xmlTextReaderGetParserLineNumber(reader))
        return QuireError(
            .invalidFormat,
            "“\(path)” is no XML store that can be read: \(reason)\(line > 0 ? " (line \(line))" : "").",
            subject: .init(file: path, position: line > 0 ? line : nil))
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
            case .start(let name): throw error("there is an element “\(name)” within a text")
            }
        }
        throw error("it ends too early")
    }

    /// Skips what is left of the element that has just begun.
    func skipElement() throws {
        var open = 1
        while open > 0 {
            switch try next() {
            case .start?: open += 1
            case .end?: open -= 1
            case .text?: break
            case nil: throw error("it ends too early")
            }
        }
    }

    /// Calls a closure with the name of each element within the one that has just begun, to its end. The closure takes
    /// the element whole.
    func forEachElement(_ body: (String) throws -> Void) throws {
        while let event = try next() {
            switch event {
            case .start(let name): try body(name)
            case .end: return
            case .text(let text):
                guard text.utf8.allSatisfy({ $0 == 0x20 || (0x09...0x0D).contains($0) }) else {
                    throw error("there is text between elements")
                }
            }
        }
        throw error("it ends too early")
    }
}
