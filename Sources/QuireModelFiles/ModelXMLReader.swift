import CLibXML2
import Foundation
internal import QuireSystem

/// Parses a model's XML into elements.
///
/// The text is untrusted: nothing is fetched from the network or from other files; document type declarations, which define
/// entities, are rejected, and so are texts much larger or deeper than any model.
struct ModelXMLReader {
    /// Real models stay below one megabyte.
    static let maximumSize = 64 << 20
    /// Elements of model files are nested six deep.
    static let maximumDepth = 16

    let source: ModelXMLSource

    /// Initializes libxml2 exactly once, as several threads may read models.
    static let preparation: Void = xmlInitParser()

    /// Parses the root element.
    ///
    /// - Parameter remarks: Gets a remark for each text between elements, which has no meaning.
    /// - Throws: ``QuireError`` with code `invalidFormat`, with name and line.
    func root(of data: Data, remarks: inout [String]) throws -> ModelXMLElement {
        if data.isEmpty { throw source.error("The file is empty.", line: nil) }
        if data.count > Self.maximumSize {
            throw source.error(
                "The text has \(data.count) bytes; a model has at most \(Self.maximumSize).",
                line: nil)
        }
        Self.preparation
        return try data.withUnsafeBytes { bytes in
            let options =
                XML_PARSE_NONET.rawValue | XML_PARSE_NOERROR.rawValue
                | XML_PARSE_NOWARNING.rawValue | XML_PARSE_BIG_LINES.rawValue
            xmlResetLastError()
            guard
                let reader = xmlReaderForMemory(
                    bytes.bindMemory(to: CChar.self).baseAddress, Int32(bytes.count), nil, nil,
                    Int32(options))
            else { throw source.error("The text cannot be parsed.", line: nil) }
            defer { xmlFreeTextReader(reader) }
            return try root(from: reader, remarks: &remarks)
        }
    }

    private func root(
        from reader: xmlTextReaderPtr, remarks: inout [String]
    ) throws -> ModelXMLElement {
        // The open elements, outermost first. The first one represents the document.
        var open = [ModelXMLElement(name: "", attributes: [], line: 1)]
        func close() {
            let element = open.removeLast()
            open[open.count - 1].children.append(element)
        }
        var status = xmlTextReaderRead(reader)
        while status == 1 {
            switch UInt32(bitPattern: xmlTextReaderNodeType(reader)) {
            case XML_READER_TYPE_ELEMENT.rawValue:
                let line = line(of: reader)
                if open.count > Self.maximumDepth {
                    throw source.error(
                        "Elements are nested more than \(Self.maximumDepth) deep.", line: line)
                }
                let isEmpty = xmlTextReaderIsEmptyElement(reader) == 1
                open.append(
                    ModelXMLElement(
                        name: text(xmlTextReaderConstName(reader)),
                        attributes: attributes(of: reader), line: line))
                if isEmpty { close() }
            case XML_READER_TYPE_END_ELEMENT.rawValue: close()
            case XML_READER_TYPE_DOCUMENT_TYPE.rawValue, XML_READER_TYPE_ENTITY_REFERENCE.rawValue:
                throw source.error(
                    "The text contains a document type declaration or an entity reference, which a model cannot have.",
                    line: line(of: reader))
            case XML_READER_TYPE_TEXT.rawValue, XML_READER_TYPE_CDATA.rawValue:
                remarks.append(
                    source.remark(
                        "Text between elements is ignored.",
                        line: line(of: reader)))
            default: break  // White space, comments and processing instructions.
            }
            status = xmlTextReaderRead(reader)
        }
        guard status == 0, let root = open.first?.children.first else { throw parsingError() }
        return root
    }

    private func attributes(of reader: xmlTextReaderPtr) -> [(name: String, value: String)] {
        var attributes: [(name: String, value: String)] = []
        while xmlTextReaderMoveToNextAttribute(reader) == 1 {
            attributes.append(
                (text(xmlTextReaderConstName(reader)), text(xmlTextReaderConstValue(reader))))
        }
        _ = xmlTextReaderMoveToElement(reader)
        return attributes
    }

    /// The line of the current node; the parser may be further ahead.
    private func line(of reader: xmlTextReaderPtr) -> Int {
        guard let node = xmlTextReaderCurrentNode(reader) else {
            return Int(xmlTextReaderGetParserLineNumber(reader))
        }
        return max(1, xmlGetLineNo(node))
    }

    /// The error for libxml2's last failure on this thread.
    private func parsingError() -> QuireError {
        guard let error = xmlGetLastError(), let message = error.pointee.message else {
            return source.error("The text is not well-formed XML.", line: nil)
        }
        let sentence = String(cString: message).trimmingCharacters(in: .whitespacesAndNewlines)
        return source.error(
            "The text is not well-formed XML (\(sentence)).",
            line: error.pointee.line > 0 ? Int(error.pointee.line) : nil)
    }

    private func text(_ characters: UnsafePointer<xmlChar>?) -> String {
        characters.map { String(cString: $0) } ?? ""
    }
}

// MARK: - Elements

/// A parsed element of a model file.
struct ModelXMLElement {
    var name: String
    /// The attributes, in the order of the file.
    var attributes: [(name: String, value: String)]
    var children: [ModelXMLElement] = []
    /// The line it begins on, from 1.
    var line: Int

    /// The value of an attribute.
    func attribute(_ name: String) -> String? {
        attributes.first { $0.name == name }?.value
    }
}

/// The name of the text being parsed, and errors about it.
struct ModelXMLSource {
    /// The path or name of the text.
    var name: String

    /// A remark on the text.
    func remark(_ message: String, line: Int) -> String { "line \(line): \(message)" }

    func error(_ message: String, line: Int?, underlying: (any Error)? = nil) -> QuireError {
        let place = line.map { "\(name), line \($0): " } ?? "\(name): "
        return QuireError(
            .invalidFormat, place + message, file: name, position: line, underlying: underlying)
    }
}
