internal import QuireSystem

/// An element of a model file, as it was parsed.
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

/// A name for the text being read, and the errors about it.
struct ModelXMLSource {
    /// The path or name of the text.
    var name: String

    /// A remark on the text.
    func remark(_ message: String, line: Int) -> String { "line \(line): \(message)" }

    func error(_ message: String, line: Int?, underlying: (any Error)? = nil) -> QuireError {
        let place = line.map { "\(name), line \($0): " } ?? "\(name): "
        return QuireError(
            .invalidFormat, place + message, subject: .init(file: name, position: line),
            underlying: underlying)
    }
}
