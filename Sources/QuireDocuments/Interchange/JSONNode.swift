/// A value read from a JSON text, with its place there, so that an error about it can say where it is.
///
/// Numbers keep their digits: what they mean is decided by the attribute they are for, so that a decimal or a
/// 64-bit integer loses nothing on the way through a floating-point number.
package struct JSONNode: Sendable {
    /// What a node is.
    package indirect enum Content: Sendable {
        case null
        case boolean(Bool)
        case number(String)
        case string(String)
        case array([JSONNode])
        /// The members in the order of the text; no name is there twice.
        case object([Member])
    }

    /// A name and its value.
    package struct Member: Sendable {
        package var name: String
        package var value: JSONNode
    }

    package var content: Content
    /// The line of its first character, from 1.
    package var line: Int
    /// The place of its first character in its line, from 1, in characters as UTF-8 counts them.
    package var column: Int

    package init(_ content: Content, line: Int, column: Int) {
        self.content = content
        self.line = line
        self.column = column
    }

    /// What it is, for an error: "an array".
    package var kind: String {
        switch content {
        case .null: "null"
        case .boolean: "a truth value"
        case .number: "a number"
        case .string: "a text"
        case .array: "an array"
        case .object: "an object"
        }
    }

    /// The value of a member, if the node is an object that has it.
    package subscript(name: String) -> JSONNode? {
        guard case .object(let members) = content else { return nil }
        return members.first { $0.name == name }?.value
    }
}
