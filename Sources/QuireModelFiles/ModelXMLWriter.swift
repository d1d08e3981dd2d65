import CLibXML2
import Foundation
internal import QuireModel

/// Writes elements as XML, in Xcode's layout.
struct ModelXMLWriter {
    /// The text of a document.
    static func data(of root: ModelXMLElement) -> Data {
        ModelXMLReader.preparation
        // These fail only when memory is exhausted, which callers cannot handle.
        guard let buffer = xmlBufferCreate() else { preconditionFailure("Out of memory.") }
        defer { xmlBufferFree(buffer) }
        guard let writer = xmlNewTextWriterMemory(buffer, 0) else {
            preconditionFailure("Out of memory.")
        }
        _ = xmlTextWriterSetIndent(writer, 1)
        _ = xmlTextWriterSetIndentString(writer, "    ")
        _ = xmlTextWriterStartDocument(writer, nil, "UTF-8", "yes")
        write(root, to: writer)
        _ = xmlTextWriterEndDocument(writer)
        xmlFreeTextWriter(writer)  // Flushes.
        guard let content = xmlBufferContent(buffer) else { return Data() }
        return Data(bytes: content, count: Int(xmlBufferLength(buffer)))
    }

    private static func write(_ element: ModelXMLElement, to writer: xmlTextWriterPtr) {
        _ = xmlTextWriterStartElement(writer, element.name)
        for (name, value) in element.attributes {
            _ = xmlTextWriterWriteAttribute(writer, name, writable(value))
        }
        for child in element.children { write(child, to: writer) }
        _ = xmlTextWriterEndElement(writer)
    }

    /// A text without the characters that XML excludes. Validation rejects these.
    private static func writable(_ text: String) -> String {
        if ModelNames.isWritable(text) { return text }
        var scalars = String.UnicodeScalarView()
        scalars.append(
            contentsOf: text.unicodeScalars.map { ModelNames.isWritable($0) ? $0 : "\u{FFFD}" })
        return String(scalars)
    }
}
